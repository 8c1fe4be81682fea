// Command trafficlights sets the lights of crossings by what their sensors report, and is killed in the middle of it. When it is back, the
// newest reports come first, so that the lights are right at once; what was reported meanwhile is replayed beside them.
//
// The controller of the lights is a process of its own, which this one starts, kills and starts again. -serial shows what it is like without
// parallel recovery.
//
// Without flags it runs on an embedded broker. With -brokers it runs on a real one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
)

const partitions = 2

// order is what the command line asks for.
type order struct {
	rate    int
	before  time.Duration
	outage  time.Duration
	session time.Duration
	serial  bool
}

func main() {
	if spec := os.Getenv(controllerEnv); spec != "" {
		kit.Run(func(ctx context.Context) error { return control(ctx, spec, os.Stdout) })
	}
	o := &order{rate: 1000, before: 3 * time.Second, outage: 8 * time.Second, session: 6 * time.Second}
	flags := kit.Parse("trafficlights", o.define)
	kit.Run(func(ctx context.Context) error { return run(ctx, flags, o, os.Stdout) })
}

func (o *order) define(set *flag.FlagSet) {
	set.IntVar(&o.rate, "rate", o.rate, "reports a second")
	set.DurationVar(&o.before, "before", o.before, "how long all is well")
	set.DurationVar(&o.outage, "outage", o.outage, "how long the controller is dead")
	set.DurationVar(&o.session, "session", o.session, "after which the group gives a dead controller up: an outage that is shorter lasts longer by that")
	set.BoolVar(&o.serial, "serial", o.serial, "replay what was reported meanwhile first, and take fresh reports after it")
}

// run plays the crash and shows what becomes of the lights.
func run(ctx context.Context, flags *kit.Flags, o *order, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lights := flags.App + "-lights"
	env, err := flags.Open(ctx, map[string]int32{reports: partitions, lights: partitions})
	if err != nil {
		return err
	}
	defer env.Close()
	say := &printer{out: out}
	c := newCity(env, o.rate)
	var wg sync.WaitGroup
	ended := make(chan error, 2)
	wg.Go(func() { ended <- c.feed(ctx) })
	wg.Go(func() { ended <- env.Follow(ctx, lights, c.take) })
	err = play(ctx, c, o, func() (*controller, error) {
		return startController(spec{App: flags.App, Brokers: env.Brokers, State: env.StateDir, Lights: lights, Session: o.session, Serial: o.serial, Verbose: flags.Verbose}, say)
	}, say)
	stop()
	wg.Wait()
	if failed := errors.Join(<-ended, <-ended); failed != nil && !errors.Is(failed, context.Canceled) {
		return errors.Join(failed, err)
	}
	return err
}

// play is the story: all is well, the controller dies, and another one takes up what it has left.
func play(ctx context.Context, c *city, o *order, begin func() (*controller, error), say *printer) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	start := func() (*controller, error) {
		one, err := begin()
		if err == nil {
			go one.died(giveUp)
		}
		return one, err
	}
	first, err := start()
	if err != nil {
		return err
	}
	defer first.kill()
	if err := c.await(ctx, say, "the first light", func(s state) bool { return s.lit > 0 }); err != nil {
		return err
	}
	if err := c.watch(ctx, say, o.before); err != nil {
		return err
	}
	first.kill()
	say.line("*** the controller is killed; the sensors go on reporting ***")
	if err := c.watch(ctx, say, o.outage); err != nil {
		return err
	}
	say.line("*** a new controller is started ***")
	began, old := time.Now(), c.cut()
	second, err := start()
	if err != nil {
		return err
	}
	defer second.kill()
	if err := c.await(ctx, say, "a fresh light", func(s state) bool { return s.age < time.Second && s.newest >= old }); err != nil {
		return err
	}
	left := c.look().left
	say.line("*** fresh lights %.1f s after the start, while %d of the old reports are still to be looked at ***", time.Since(began).Seconds(), left)
	if err := c.await(ctx, say, "the old reports", func(s state) bool { return s.left == 0 }); err != nil {
		return err
	}
	say.line("*** nothing is left behind, %.1f s after the start ***", time.Since(began).Seconds())
	c.enough()
	if err := c.await(ctx, say, "the last light", func(s state) bool { return s.lit == s.sent }); err != nil {
		return err
	}
	s := c.look()
	say.line("each of %d reports has set its light; %d did so twice, because of the crash", s.sent, s.again)
	return second.stop()
}

// printer writes whole lines of several goroutines.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// controller is the process that sets the lights.
type controller struct {
	cmd   *exec.Cmd
	said  chan struct{} // closed when it says no more
	ended atomic.Bool   // by us
}

// died waits for the end of the process, and gives up if it ends by itself.
func (c *controller) died(giveUp context.CancelCauseFunc) {
	if <-c.said; !c.ended.Load() {
		giveUp(errors.New("the controller has ended by itself"))
	}
}
