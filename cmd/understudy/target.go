package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
)

// target is what every command is told: where the brokers are, which application is meant, and how long it may take.
type target struct {
	connection
	app     string
	all     bool          // the command is about all groups: there is no -app
	timeout time.Duration // 0: no limit
}

// flagSet begins the flags of a command. Timeout is the default of -timeout; 0 is none.
func (t *target) flagSet(command string, timeout time.Duration, diagnostics io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("understudy "+command, flag.ContinueOnError)
	set.SetOutput(diagnostics)
	t.connection.flags(set)
	if !t.all {
		set.StringVar(&t.app, "app", "", "the application's id, which is the name of its group (required)")
	}
	what := "give up after that long"
	if timeout == 0 {
		what = "give up after that long (default: when nothing has moved for 30 s)"
	}
	set.DurationVar(&t.timeout, "timeout", timeout, what)
	return set
}

// parse reads the command line. What is wrong with it is told on the set's output.
func (t *target) parse(set *flag.FlagSet, args []string, faults ...func() string) error {
	endless := set.Lookup("timeout").DefValue == "0s"
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage // the set has told what is wrong
	}
	fault := ""
	switch {
	case set.NArg() > 0:
		fault = fmt.Sprintf("%q is no flag", set.Arg(0))
	case t.app == "" && !t.all:
		fault = "-app is missing: give the application's id"
	case t.timeout < 0 || t.timeout == 0 && !endless:
		fault = fmt.Sprintf("-timeout is %v: it must be positive", t.timeout)
	case t.brokers == "":
		fault = "-brokers is missing: give at least one host:port"
	}
	for i := 0; i < len(faults) && fault == ""; i++ {
		fault = faults[i]()
	}
	if fault == "" {
		return nil
	}
	fmt.Fprintf(set.Output(), "%s: %s\n", set.Name(), fault)
	return errUsage
}

// reach connects and calls f, which may take as long as the command line allows.
func (t *target) reach(ctx context.Context, f func(context.Context, *kafka.Client) error) error {
	cfg, err := t.config(os.Getenv)
	if err != nil {
		return err
	}
	if t.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.timeout)
		defer cancel()
	}
	client, err := kafka.Open(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}
