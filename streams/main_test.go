package streams_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/realkafka"
)

// children are what the test binary can be besides tests, by the environment variable that makes it so. They get its value and return the exit
// code.
var children = map[string]func(spec string) int{childEnv: child, memberEnv: memberChild, recoveryEnv: recoveryChild}

// waitBeside lets twice as many parallel tests run as there are processors, unless -parallel says how many: most wait most of their time, for
// sessions, elections, commits. More would starve those that hold something against the clock. A test whose subject is what does not happen in
// some time, or what this process uses, is not parallel, and so has the process to itself.
func waitBeside() {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))) // a number, so there is no error
	}
}

// atOnce runs subtests all at once, however many tests may run beside each other: those that do nothing but wait nearly all of their time.
func atOnce(t *testing.T, subtests map[string]func(t *testing.T)) {
	var wg sync.WaitGroup
	for name, subtest := range subtests {
		wg.Go(func() { t.Run(name, subtest) })
	}
	wg.Wait()
}

func TestMain(m *testing.M) {
	for env, run := range children {
		if spec := os.Getenv(env); spec != "" {
			os.Exit(run(spec))
		}
	}
	if spec := os.Getenv(ledgerEnv); spec != "" {
		os.Exit(ledgerChild(spec))
	}
	flag.Parse()
	waitBeside()
	code := m.Run()
	if err := realkafka.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if err := goleak.Find(proxies...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
