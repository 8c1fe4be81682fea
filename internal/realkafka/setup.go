package realkafka

import (
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

//go:embed kafka.sh pom.xml log4j2.xml
var files embed.FS

// errMissing is in the chain when this machine lacks what a broker needs.
var errMissing = errors.New("realkafka: no real Kafka here")

// available says what is missing: Java, or the jars with no Maven to fetch them.
func available() error {
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("%w: install a Java 17 runtime: %w", errMissing, err)
	}
	if jars, _ := filepath.Glob(filepath.Join(cacheDir(), "libs", "kafka_2.13-*.jar")); len(jars) > 0 {
		return nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: no jars in %s and no Maven to fetch them: %w", errMissing, cacheDir(), err)
	}
	return nil
}

// cacheDir is where kafka.sh keeps the jars.
func cacheDir() string {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "understudy-kafka")
}

// unpack writes the script and its files, as a test binary may run anywhere.
func unpack(dir string) (script string, err error) {
	for _, name := range []string{"kafka.sh", "pom.xml", "log4j2.xml"} {
		b, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil { // a script must be executable
			return "", fmt.Errorf("realkafka: %w", err)
		}
	}
	return filepath.Join(dir, "kafka.sh"), nil
}

// given are the ports that clusters of this process have got. Of two that are started at once, neither listens while the other looks for ports.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// freePorts finds n ports in a row, below those that the system gives to outgoing connections, and gives none twice.
func freePorts(n int) (int, error) {
	given.Lock()
	defer given.Unlock()
	for range 200 {
		first := 20000 + rand.IntN(6000-n) // not a secret
		if !allFree(first, n) {
			continue
		}
		if given.ports == nil {
			given.ports = map[int]bool{}
		}
		for port := first; port < first+n; port++ {
			given.ports[port] = true
		}
		return first, nil
	}
	return 0, fmt.Errorf("realkafka: no %d free ports in a row between 20000 and 26000", n)
}

// allFree says whether nobody has the ports, or will have them in a moment. The caller holds the lock of given.
func allFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		if given.ports[port] {
			return false
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
