//go:build failpoints

package streams_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/understudy-streams/understudy/internal/fail"
)

// killCase is a plan that is being carried out.
type killCase struct {
	plan   plan
	w      *killWorld
	root   string
	dir    string // of the process that is killed
	mate   *victim
	lives  int
	deaths []death

	kills, missed []shot
}

const (
	lifeLimit = 60 * time.Second
	chunks    = 16 // in which a life is fed
	chunk     = 3  // records for each partition
)

// run carries the plan out and returns what was wrong.
func (c *killCase) run() (err error) {
	if c.root, err = os.MkdirTemp("", "kill"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(c.root) }()
	c.dir = filepath.Join(c.root, "a")
	if c.w, err = newKillWorld(); err != nil {
		return err
	}
	defer c.w.close()
	defer c.endMate(syscall.SIGKILL)
	defer func() { err = errors.Join(err, c.w.wentBack()) }()
	if err := c.w.feed(20); err != nil {
		return err
	}
	if err := c.before(); err != nil {
		return fmt.Errorf("before the first kill: %w", err)
	}
	for i, s := range c.plan.shots {
		if err := c.shoot(s, c.plan.pair && i == 0); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	if err := c.finish(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return nil
}

// mateOver is an error if the second process has ended, which nobody asked for.
func (c *killCase) mateOver() error {
	if c.mate == nil || !c.mate.over() {
		return nil
	}
	return c.mate.fails("the second process has ended")
}

// before is the life before the one that is killed, and what is done after it.
func (c *killCase) before() error {
	switch c.plan.warm {
	case warmEnded:
		if _, err := c.live(c.spawn(c.dir, shot{}), false); err != nil {
			return err
		}
	case warmKilled:
		if err := c.killInPassing(); err != nil {
			return err
		}
	}
	if c.plan.lose {
		if err := os.RemoveAll(c.dir); err != nil {
			return err
		}
	}
	if c.plan.anew {
		return c.w.anew()
	}
	return nil
}

// fatLog is how long a changelog of large rows has to be, so that its restore takes several ingestions.
const fatLog = 40

// killInPassing lets a process run until every partition has some commits, then kills it.
func (c *killCase) killInPassing() error {
	v := c.spawn(c.dir, shot{})
	deadline := time.Now().Add(lifeLimit)
	enough := c.w.begun
	if c.plan.pad > 0 {
		enough = func() bool {
			return c.w.begun() && c.w.ends(killChangelog(killDirect), fatLog) && c.w.ends(killChangelog(killRouted), fatLog)
		}
	}
	for n := 0; n < chunks || !enough(); n++ {
		if time.Now().After(deadline) || v.over() {
			return v.fails("it does not come to commit anything")
		}
		if err := c.w.feed(chunk); err != nil {
			return err
		}
		time.Sleep(4 * time.Millisecond)
	}
	_ = v.cmd.Process.Kill()
	<-v.ended
	return c.buried(v, false)
}

// shoot lets a process run that is armed. If it ends well, its point was not there to be come by.
func (c *killCase) shoot(s shot, pair bool) error {
	v := c.spawn(c.dir, s)
	killed, err := c.live(v, pair)
	switch {
	case err != nil:
		return err
	case killed:
		c.kills = append(c.kills, s)
		return c.buried(v, s.wipe)
	}
	c.missed = append(c.missed, s)
	_, err = c.w.checkDir(c.dir, nil)
	return err
}

// buried looks at what a dead process has left.
func (c *killCase) buried(v *victim, wipe bool) error {
	d, err := c.w.death()
	if err != nil {
		return err
	}
	c.deaths = append(c.deaths, d)
	var ahead *death
	if c.lives == 1 {
		ahead = &d
	}
	if _, err := c.w.checkDir(c.dir, ahead); err != nil {
		return fmt.Errorf("the directory after the kill: %w", err)
	}
	c.w.died(v.life)
	if wipe {
		return os.RemoveAll(c.dir)
	}
	return nil
}

// finish lets everything come to its end.
func (c *killCase) finish() error {
	if _, err := c.live(c.spawn(c.dir, shot{}), false); err != nil {
		return err
	}
	dirs := []string{c.dir}
	if c.mate != nil {
		dirs = append(dirs, c.mate.dir)
		if err := c.endMate(syscall.SIGTERM); err != nil {
			return err
		}
	}
	var found []onDisk
	for _, dir := range dirs {
		d, err := c.w.checkDir(dir, nil)
		if err != nil {
			return fmt.Errorf("the directory after a clean end: %w", err)
		}
		found = append(found, d)
	}
	return truth{w: c.w, pad: c.plan.pad, deaths: c.deaths}.check(found)
}

func (c *killCase) endMate(sig syscall.Signal) error {
	m := c.mate
	c.mate = nil
	if m == nil {
		return nil
	}
	_ = m.cmd.Process.Signal(sig)
	<-m.ended
	if sig == syscall.SIGTERM && m.exit() != 0 {
		return m.fails("the second process has not ended well")
	}
	return nil
}

// live feeds a process and waits until it has caught up, then asks it to end. It reports whether the process was killed by its point instead. An
// end of its own accord is an error.
func (c *killCase) live(v *victim, pair bool) (killed bool, err error) {
	deadline := time.Now().Add(lifeLimit)
	told := false
	for n := 0; !v.over(); n++ {
		switch {
		case time.Now().After(deadline):
			err := v.fails("it has not caught up and ended within " + lifeLimit.String())
			if c.mate != nil {
				err = errors.Join(err, c.mate.fails("the second process"))
			}
			return false, err
		case c.mateOver() != nil:
			return false, c.mateOver()
		case pair && c.mate == nil && v.said("state running"):
			c.mate = c.spawn(filepath.Join(c.root, "b"), shot{})
		case n < chunks:
			if err := c.w.feed(chunk); err != nil {
				return false, err
			}
		case !told && v.said("state running") && (!pair || c.mate != nil && c.mate.said("state running")) && c.w.caughtUp() &&
			(!strings.HasPrefix(v.shot.point, "purge.") || c.w.purged()):
			told = true
			_ = v.cmd.Process.Signal(syscall.SIGTERM)
		}
		select {
		case <-v.ended:
		case <-time.After(5 * time.Millisecond):
		}
	}
	return c.ended(v)
}

// ended judges the end of a process.
func (c *killCase) ended(v *victim) (killed bool, err error) {
	switch {
	case v.said("lost"):
		return false, v.fails("it has lost its membership")
	case v.said("wiped") && !c.plan.anew:
		return false, v.fails("it has wiped a store")
	case v.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && v.shot.point != "":
		return true, nil
	case v.exit() != 0:
		return false, v.fails("it has failed")
	}
	return false, nil
}

// victim is a process that may be killed.
type victim struct {
	cmd   *exec.Cmd
	dir   string
	life  string
	shot  shot
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// Write takes what the process says.
func (v *victim) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.out.Write(b)
}

func (c *killCase) spawn(dir string, s shot) *victim {
	c.lives++
	v := &victim{dir: dir, life: "life-" + strconv.Itoa(c.lives), shot: s, ended: make(chan struct{})}
	spec, err := json.Marshal(killSpec{Brokers: c.w.broker.Addrs(), Dir: dir, Life: v.life, Pad: c.plan.pad, FlushEvery: c.plan.flush, Workers: c.plan.crew})
	if err != nil {
		panic(err) // it has no value that cannot be marshalled
	}
	v.cmd = exec.Command(os.Args[0], "-test.run=^$")
	v.cmd.Env = append(os.Environ(), killEnv+"="+string(spec))
	if s.point != "" {
		v.cmd.Env = append(v.cmd.Env, fmt.Sprintf("%s=%s:%d", fail.Env, s.point, s.hit))
	}
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	v.cmd.Stdout, v.cmd.Stderr = v, v
	c.w.born(v.life)
	if err := v.cmd.Start(); err != nil {
		panic(err) // it is this very binary
	}
	go func() {
		defer close(v.ended)
		_ = v.cmd.Wait() // its state says how it ended
	}()
	return v
}

func (v *victim) over() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// said reports whether a line that begins so was printed.
func (v *victim) said(prefix string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.HasPrefix(v.out.String(), prefix) || strings.Contains(v.out.String(), "\n"+prefix)
}

// exit is the exit code, -1 after a signal.
func (v *victim) exit() int { return v.cmd.ProcessState.ExitCode() }

// fails ends the process and says what was wrong, and what it said.
func (v *victim) fails(what string) error {
	_ = v.cmd.Process.Kill()
	<-v.ended
	v.mu.Lock()
	defer v.mu.Unlock()
	return errors.New(what + "; it said:\n" + v.out.String())
}
