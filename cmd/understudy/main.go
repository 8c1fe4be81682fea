// Command understudy looks at running applications from outside, and brings dead letters back.
//
//	understudy group list     -brokers host:port[,host:port] [-prefix P] [-match REGEXP]
//	understudy group describe -brokers … -app ID [-json] [-offsets]
//	understudy group lag      -brokers … -app ID [-watch 5s]
//	understudy group reset    -brokers … -app ID -to earliest|latest|OFFSET|TIME [-state-dir DIR] [-execute]
//	understudy group delete   -brokers … -app ID [-internal-topics] [-state-dir DIR] [-execute]
//
// List names the groups of the cluster. Describe prints who runs, learns and copies which task, decoded from what the group's coordinator
// keeps; with -offsets also how far the input is committed, and what is done beyond that. Lag says how far a group is behind, in offsets and in
// time: what is done beyond a committed offset does not count, and what is put aside is named on its own. Reset takes the offsets of a group
// elsewhere, and clears what an application has made of its input: its internal topics and its state, as both belong together; the dead letters
// stay. Delete forgets a group. Both need that nobody is in the group, and can be run again if they are interrupted.
//
//	understudy dlq list       -brokers … -app ID
//	understudy dlq show       -brokers … -app ID [-source NAME] [-partition N] [-offset N]
//	understudy dlq redrive    -brokers … -app ID [-source NAME] [-class C] [-key K] [-from T] [-to T] [-apply]
//	understudy retry list     -brokers … -app ID
//	understudy retry drain    -brokers … -app ID [-source NAME] [-topic-of-record T] [-class C] [-key K] [-apply]
//
// print what is in the dead-letter topics, and what is put aside to be tried again. Redrive sends dead letters back: into the topic
// <app>-<source>-redrive, from which the task that failed takes them. Drain makes dead letters of what is put aside, while no process of the
// application runs. Without -apply both count the records and write nothing, as reset and delete change nothing without -execute; all other
// commands change nothing, and none joins a group.
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

const usage = `usage: understudy group list     -brokers host:port[,host:port] [flags]
       understudy group describe -brokers ... -app ID [flags]
       understudy group lag      -brokers ... -app ID [flags]
       understudy group reset    -brokers ... -app ID -to WHERE [flags]
       understudy group delete   -brokers ... -app ID [flags]
       understudy dlq list       -brokers ... -app ID [flags]
       understudy dlq show       -brokers ... -app ID [flags]
       understudy dlq redrive    -brokers ... -app ID [flags]
       understudy retry list     -brokers ... -app ID [flags]
       understudy retry drain    -brokers ... -app ID [flags]

A command with -h lists its flags.
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

// commands are what can be said, and what does it.
var commands = []struct {
	name string
	run  func(ctx context.Context, args []string, out, diagnostics io.Writer) error
}{
	{"group list", groupList},
	{"group describe", groupDescribe},
	{"group lag", groupLag},
	{"group reset", groupReset},
	{"group delete", groupDelete},
	{"dlq list", dlqList},
	{"dlq show", dlqShow},
	{"dlq redrive", dlqRedrive},
	{"retry list", retryList},
	{"retry drain", retryDrain},
}

func run(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		fmt.Fprint(diagnostics, usage)
		return flag.ErrHelp
	}
	if len(args) >= 2 {
		for _, c := range commands {
			if c.name == args[0]+" "+args[1] {
				return c.run(ctx, args[2:], out, diagnostics)
			}
		}
	}
	fmt.Fprint(diagnostics, usage)
	return errUsage
}
