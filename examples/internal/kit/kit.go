// Package kit is what the example programs share beside the runtime: flags, brokers to run on, a loader and a reader of topics.
package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// Flags are the flags that every example has.
type Flags struct {
	Brokers  string
	App      string
	State    string
	Standbys int
	Verbose  bool
}

// Parse reads the command line of an example whose application id is app by default; more defines flags of its own. It ends the process if
// the flags are wrong.
func Parse(app string, more ...func(*flag.FlagSet)) *Flags {
	f := &Flags{}
	set := flag.NewFlagSet(app, flag.ExitOnError)
	f.define(set, app)
	for _, define := range more {
		define(set)
	}
	_ = set.Parse(os.Args[1:]) // it exits
	return f
}

func (f *Flags) define(set *flag.FlagSet, app string) {
	set.StringVar(&f.Brokers, "brokers", "", "comma-separated brokers (host:port); without it an embedded broker is started")
	set.StringVar(&f.App, "app", app, "application id: processes with the same one share the work")
	set.StringVar(&f.State, "state", "", "state directory, one for each process; without it a temporary one that is removed at the end")
	set.IntVar(&f.Standbys, "standbys", 0, "copies of each state that other processes keep, to go on at once when one dies")
	set.BoolVar(&f.Verbose, "v", false, "print the runtime's log")
}

// brokers are the addresses of the flag, without blanks.
func (f *Flags) brokers() []string {
	return strings.FieldsFunc(f.Brokers, func(r rune) bool { return r == ',' || r == ' ' })
}

// Embedded reports whether the example runs on a broker within its process.
func (f *Flags) Embedded() bool { return f.Brokers == "" }

// Logger logs to the standard error stream if the flag says so, and nothing otherwise.
func (f *Flags) Logger() *zap.Logger {
	if !f.Verbose {
		return zap.NewNop()
	}
	c := zap.NewDevelopmentConfig()
	c.DisableStacktrace = true
	log, err := c.Build()
	if err != nil {
		return zap.NewNop()
	}
	return log
}

// Run runs an example until it returns or is interrupted, and ends the process with 1 if it failed. A second interrupt ends it at once.
func Run(f func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Stderr, f)
	stop()
	os.Exit(code)
}

// run returns the exit code: an example that ends because it was interrupted has not failed, unless something else went wrong too.
func run(ctx context.Context, stderr io.Writer, f func(ctx context.Context) error) int {
	err := f(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && onlyCanceled(err):
		fmt.Fprintln(stderr, "\ninterrupted") // below what a terminal shows of Ctrl-C
		return 0
	default:
		fmt.Fprintln(stderr, err)
		return 1
	}
}

// onlyCanceled reports whether every error that is joined in err comes from the end of a context.
func onlyCanceled(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each one is looked at
		for _, e := range many.Unwrap() {
			if !onlyCanceled(e) {
				return false
			}
		}
		return true
	}
	return errors.Is(err, context.Canceled)
}
