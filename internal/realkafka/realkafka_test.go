package realkafka

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := StopShared(); err != nil {
			println(err.Error())
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

func reachable(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func TestLifeOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts brokers")
	}
	c := Start(t, 1, "num.partitions=3")
	require.Len(t, c.Addrs(), 1)
	require.True(t, reachable(c.Addr(1)))

	require.NoError(t, c.Pause(1))
	require.NoError(t, c.Resume(1))

	require.NoError(t, c.Kill(1))
	require.False(t, reachable(c.Addr(1)))
	require.ErrorContains(t, c.Kill(1), "does not run")
	require.NoError(t, c.Restart(1))
	require.True(t, reachable(c.Addr(1)))
	require.Contains(t, c.tail(), "node 1:")

	require.NoError(t, c.StopNode(1))
	require.False(t, reachable(c.Addr(1)))
	require.NoError(t, c.Stop())
	_, err := c.pid(1)
	require.Error(t, err, "a stopped node has no process id")
}

func TestPortsAreGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 100 { // of 6000, so that chance alone would give some twice
		first, err := freePorts(6)
		require.NoError(t, err)
		for port := first; port < first+6; port++ {
			require.False(t, seen[port], "%d was given before, and nobody listens on it yet", port)
			seen[port] = true
		}
	}
}

func TestSharedIsStartedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker")
	}
	require.Same(t, Shared(t), Shared(t))
}

// recorder is a test that is skipped or fails without ending the real one.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()              {}
func (r *recorder) Skipf(string, ...any) { r.skipped = true }
func (r *recorder) Fatal(...any)         { r.failed = true }

func TestWithoutJava(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := available()
	require.ErrorIs(t, err, errMissing)

	t.Setenv("REQUIRE_KAFKA", "")
	r := &recorder{TB: t}
	giveUp(r, err)
	require.True(t, r.skipped)
	require.False(t, r.failed)

	t.Setenv("REQUIRE_KAFKA", "1")
	r = &recorder{TB: t}
	giveUp(r, err)
	require.True(t, r.failed)
}

func TestScriptSaysHowToUseIt(t *testing.T) {
	if err := available(); err != nil {
		t.Skip(err)
	}
	script, err := unpack(t.TempDir())
	require.NoError(t, err)
	c := &Cluster{script: script}
	_, err = c.run(nil, "help")
	require.ErrorContains(t, err, "kafka.sh start DIR")
}

func TestBrokenSettingIsReported(t *testing.T) {
	if err := available(); err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("starts a broker")
	}
	_, err := start(t.TempDir(), 1, []string{"num.partitions=none"})
	require.ErrorContains(t, err, "num.partitions")
}

func TestBrokersDieWithTheTestProcess(t *testing.T) {
	if err := available(); err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("starts a broker")
	}
	parent := exec.Command("sleep", "300")
	require.NoError(t, parent.Start())
	dir := t.TempDir()
	script, err := unpack(dir)
	require.NoError(t, err)
	port, err := freePorts(2)
	require.NoError(t, err)
	c := &Cluster{script: script, nodes: 1, dir: filepath.Join(dir, "c")}
	_, err = c.run([]string{"KAFKA_PARENT=" + strconv.Itoa(parent.Process.Pid)}, "start", c.dir, "1", strconv.Itoa(port))
	require.NoError(t, err)
	pid, err := c.pid(1)
	require.NoError(t, err)
	require.True(t, alive(pid))
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // says that it was killed
	require.Eventually(t, func() bool { return !alive(pid) }, 20*time.Second, 50*time.Millisecond)
}
