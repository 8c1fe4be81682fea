package realkafka

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cluster is a running cluster. Nodes count from 1.
type Cluster struct {
	dir    string // data, logs and process ids, a folder per node
	script string
	nodes  int
	addrs  []string
}

// Start starts a cluster that is stopped when the test ends. props are more lines for each server.properties ("key=value").
func Start(t testing.TB, nodes int, props ...string) *Cluster {
	t.Helper()
	c, err := start(t.TempDir(), nodes, props)
	giveUp(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.tail())
		}
		if err := c.discard(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// giveUp skips a test that cannot have a broker here, and fails one that should have got it.
func giveUp(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errMissing) && os.Getenv("REQUIRE_KAFKA") != "1":
		t.Skipf("%v (REQUIRE_KAFKA=1 makes this a failure)", err)
	default:
		t.Fatal(err)
	}
}

// start runs the script. The ports may be taken between the choice and the start, so it tries three times.
func start(dir string, nodes int, props []string) (*Cluster, error) {
	if err := available(); err != nil {
		return nil, err
	}
	script, err := unpack(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{script: script, nodes: nodes}
	for attempt := range 3 {
		c.dir = filepath.Join(dir, "cluster"+strconv.Itoa(attempt))
		port, e := freePorts(2 * nodes)
		if e != nil {
			return nil, e
		}
		out, e := c.run([]string{"KAFKA_PROPS=" + strings.Join(props, "\n")}, "start", c.dir, strconv.Itoa(nodes), strconv.Itoa(port))
		if e == nil {
			c.addrs = strings.Split(strings.TrimSpace(out), ",")
			return c, nil
		}
		err = errors.Join(e, c.discard())
		if !strings.Contains(e.Error(), "Address already in use") {
			break
		}
	}
	return nil, err
}

// run runs the script with this process as the one that the brokers must not outlive.
func (c *Cluster) run(env []string, args ...string) (string, error) {
	cmd := exec.Command(c.script, args...)
	cmd.Env = append(append(os.Environ(), "KAFKA_PARENT="+strconv.Itoa(os.Getpid())), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("realkafka: kafka.sh %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Addrs are the addresses of all nodes, those that are down too.
func (c *Cluster) Addrs() []string { return c.addrs }

// Addr is the address of a node.
func (c *Cluster) Addr(node int) string { return c.addrs[node-1] }

// Stop stops every node, first politely, and waits for them.
func (c *Cluster) Stop() error {
	for n := 1; n <= c.nodes; n++ {
		if pid, err := c.pid(n); err == nil {
			_ = syscall.Kill(pid, syscall.SIGCONT) // a paused one would not hear the next signal
		}
	}
	_, err := c.run(nil, "stop", c.dir)
	return err
}

// discard ends every node at once: nobody reads their data any more, and a node without a quorum is slow to go politely.
func (c *Cluster) discard() error {
	var errs []error
	for n := 1; n <= c.nodes; n++ {
		pid, err := c.pid(n)
		if err == nil && alive(pid) {
			errs = append(errs, c.Kill(n))
		}
	}
	return errors.Join(errs...)
}

// Kill ends a node at once, as a crash does, and waits until it is gone.
func (c *Cluster) Kill(node int) error { return c.end(node, syscall.SIGKILL) }

// StopNode shuts a node down cleanly, with a hand-over of its leaders, and waits until it is gone.
func (c *Cluster) StopNode(node int) error { return c.end(node, syscall.SIGTERM) }

func (c *Cluster) end(node int, signal syscall.Signal) error {
	pid, err := c.pid(node)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("realkafka: signal node %d: %w", node, err)
	}
	for deadline := time.Now().Add(30 * time.Second); alive(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("realkafka: node %d lives 30 s after %v", node, signal)
		}
	}
	return os.Remove(c.pidFile(node)) // the system may give the number to another process, which is not to be signalled
}

// Restart starts a node that was killed or stopped, with its data, and waits until it accepts connections.
func (c *Cluster) Restart(node int) error {
	_, err := c.run(nil, "node", c.dir, strconv.Itoa(node))
	return err
}

// Pause stops a node's clock: its connections stay open and nothing answers. It returns when every thread of the node stands still.
func (c *Cluster) Pause(node int) error {
	if err := c.signal(node, syscall.SIGSTOP); err != nil {
		return err
	}
	pid, err := c.pid(node)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); !standsStill(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("realkafka: node %d still runs 10 s after it was told to stop", node)
		}
	}
	return nil
}

// standsStill says whether all threads of a process are stopped. The signal returns before they are.
func standsStill(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return true // no /proc here: take it on trust
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has ended
		}
		// The state follows the name, which is in parentheses and may hold any character.
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) && b[i+2] != 'T' {
			return false
		}
	}
	return true
}

// Resume undoes Pause.
func (c *Cluster) Resume(node int) error { return c.signal(node, syscall.SIGCONT) }

func (c *Cluster) signal(node int, s syscall.Signal) error {
	pid, err := c.pid(node)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("realkafka: signal node %d: %w", node, err)
	}
	return nil
}

func (c *Cluster) pidFile(node int) string { return filepath.Join(c.dir, strconv.Itoa(node), "pid") }

func (c *Cluster) pid(node int) (int, error) {
	b, err := os.ReadFile(c.pidFile(node))
	if err != nil {
		return 0, fmt.Errorf("realkafka: node %d does not run: %w", node, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// alive says whether a process runs. One that ended but was not collected by its parent does not, once its last thread is gone and with it
// the sockets.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !dirExists("/proc/self")
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	if !strings.HasPrefix(after, "Z") {
		return true
	}
	threads, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	return len(threads) > 1
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// tail is the end of each node's log.
func (c *Cluster) tail() string {
	var s strings.Builder
	for n := 1; n <= c.nodes; n++ {
		b, err := os.ReadFile(filepath.Join(c.dir, strconv.Itoa(n), "log"))
		if err != nil {
			continue
		}
		fmt.Fprintf(&s, "node %d:\n%s\n", n, b[max(0, len(b)-4096):])
	}
	return s.String()
}
