package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// controllerEnv makes a process of this program a controller: its value is a spec.
const controllerEnv = "TRAFFICLIGHTS_CONTROLLER"

// spec is what a controller is told.
type spec struct {
	App     string
	Brokers []string
	State   string
	Lights  string // topic
	Session time.Duration
	Serial  bool
	Verbose bool
}

// startController starts a process of this program as a controller, and passes on what it says.
func startController(s spec, say *printer) (*controller, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), controllerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &controller{cmd: cmd, said: make(chan struct{})}
	go func() {
		defer close(c.said)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			say.line("        %s", lines.Text())
		}
	}()
	return c, nil
}

// kill ends the process as a power cut would: it says goodbye to nobody.
func (c *controller) kill() {
	c.ended.Store(true)
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.said
	_ = c.cmd.Wait() // it was killed, which is an error
}

// stop ends the process cleanly.
func (c *controller) stop() error {
	c.ended.Store(true)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-c.said
	return c.cmd.Wait()
}

// control is the controller.
func control(ctx context.Context, text string, out io.Writer) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("%s: %w", controllerEnv, err)
	}
	mode := streams.RecoverParallel
	if s.Serial {
		mode = streams.RecoverSerial
	}
	flags := kit.Flags{Verbose: s.Verbose}
	app, err := streams.New(topology(s.Lights), streams.Config{
		ApplicationID: s.App, Brokers: s.Brokers, StateDir: s.State, CommitInterval: 200 * time.Millisecond, Session: s.Session,
		OnFailure: retry.Parallel(retry.Workers(workers)), Recovery: mode, RecoverAbove: 500, Log: flags.Logger(),
		Listener: streams.Listener{RecoveryLost: func(topic string, partition int32, lost streams.OffsetRange) {
			fmt.Fprintf(out, "%s/%d has lost its offsets %d to %d\n", topic, partition, lost.From, lost.To-1)
		}},
	})
	if err != nil {
		return err
	}
	watched := make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	go func() { defer close(watched); progress(ctx, app, out) }()
	err = app.Run(ctx)
	stop()
	<-watched
	return err
}

// progress shows how far the replay is, as long as there is one.
func progress(ctx context.Context, app *streams.App, out io.Writer) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for was := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := app.Recovering()
		if is || was {
			for _, r := range app.Recovery() {
				fmt.Fprintln(out, r)
			}
		}
		was = is
	}
}

const (
	workers = 2
	// deciding is what a decision about a light takes.
	deciding = 2 * time.Millisecond
)

// topology sets a light for each report. It comes to the same in any order: a light says which report it rests on.
func topology(lights string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(reports, serde.String, serde.String).
		TryMapValues("decide", func(ctx context.Context, r streams.Record[string, string]) (string, error) {
			green, err := decide(r.Value)
			if err != nil {
				return "", retry.Permanent(err)
			}
			select {
			case <-time.After(deciding):
				return r.Value + " green " + green.String(), nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}).
		To(lights)
	return b
}

var errReport = errors.New("no report")

// decide gives each waiting car two seconds.
func decide(report string) (time.Duration, error) {
	words := strings.Fields(report)
	if len(words) != 3 {
		return 0, errReport
	}
	cars, err := strconv.Atoi(words[2])
	if err != nil || cars < 0 {
		return 0, errReport
	}
	return time.Duration(cars) * 2 * time.Second, nil
}
