// Command understudy looks at running applications from outside.
//
//	understudy group describe -brokers host:port[,host:port] -app ID [-json] [-offsets]
//
// prints who runs, learns and copies which task, decoded from what the group's coordinator keeps. It changes nothing and joins nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const usage = `usage: understudy group describe -brokers host:port[,host:port] -app ID [flags]

"understudy group describe -h" lists the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "understudy:", err)
		os.Exit(1)
	}
}

// errUsage: the command line was wrong, and the user was told how it is written.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		fmt.Fprint(diagnostics, usage)
		return flag.ErrHelp
	}
	if len(args) < 2 || args[0] != "group" || args[1] != "describe" {
		fmt.Fprint(diagnostics, usage)
		return errUsage
	}
	return groupDescribe(ctx, args[2:], out, diagnostics)
}
