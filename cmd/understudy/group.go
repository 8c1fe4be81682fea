package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
)

const (
	// patience bounds how long the command waits for a rebalance to end: while one is under way the coordinator shows no assignments.
	patience = 5 * time.Second
	pause    = 200 * time.Millisecond
)

func groupDescribe(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var (
		conn             connection
		app              string
		asJSON, offsets  bool
		set              = flag.NewFlagSet("understudy group describe", flag.ContinueOnError)
		timeout          time.Duration
		cannotParseFlags = func(err error) error {
			if errors.Is(err, flag.ErrHelp) {
				return err
			}
			return errUsage // the set has told what is wrong
		}
	)
	set.SetOutput(diagnostics)
	conn.flags(set)
	set.StringVar(&app, "app", "", "the application's id, which is the name of its group (required)")
	set.BoolVar(&asJSON, "json", false, "print JSON")
	set.BoolVar(&offsets, "offsets", false, "ask for the committed offset and the lag of each input partition too")
	set.DurationVar(&timeout, "timeout", 30*time.Second, "give up after that long")
	if err := set.Parse(args); err != nil {
		return cannotParseFlags(err)
	}
	switch {
	case set.NArg() > 0:
		fmt.Fprintf(diagnostics, "understudy group describe: %q is no flag\n", set.Arg(0))
		return errUsage
	case app == "":
		fmt.Fprintln(diagnostics, "understudy group describe: -app is missing: give the application's id")
		return errUsage
	case timeout <= 0:
		fmt.Fprintf(diagnostics, "understudy group describe: -timeout is %v: it must be positive\n", timeout)
		return errUsage
	case conn.brokers == "":
		fmt.Fprintln(diagnostics, "understudy group describe: -brokers is missing: give at least one host:port")
		return errUsage
	}
	cfg, err := conn.config(os.Getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := kafka.Open(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	return describe(ctx, client, app, asJSON, offsets, out)
}

func describe(ctx context.Context, client *kafka.Client, app string, asJSON, offsets bool, out io.Writer) error {
	d, err := settled(ctx, client, app)
	if err != nil {
		return err
	}
	if err := foreign(d); err != nil {
		return err
	}
	v := viewOf(d)
	if offsets {
		if v.Partitions, err = positions(ctx, client, app, inputs(d)); err != nil {
			return err
		}
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(v)
	} else {
		_, err = io.WriteString(out, v.text())
	}
	if err != nil {
		return err
	}
	return v.unread()
}

// settled describes the group when its rebalance is over, or as it is when patience is.
func settled(ctx context.Context, client *kafka.Client, app string) (kafka.GroupDescription, error) {
	for end := time.Now().Add(patience); ; {
		d, err := client.DescribeGroup(ctx, app)
		again := err == nil && rebalancing(d.State) ||
			errors.Is(err, kcode.CoordinatorLoadInProgress) || errors.Is(err, kcode.CoordinatorNotAvailable) || errors.Is(err, kcode.NotCoordinator)
		if !again || !time.Now().Before(end) {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func rebalancing(state string) bool {
	return state == "PreparingRebalance" || state == "CompletingRebalance"
}

// foreign is an error for a group that is none of this runtime's.
func foreign(d kafka.GroupDescription) error {
	switch {
	case d.State == "Dead":
		return fmt.Errorf("there is no group %q on these brokers: -app must be the application's id, and the application must have run there", d.Group)
	case d.ProtocolType != "" && d.ProtocolType != "consumer":
		return fmt.Errorf("group %q is no application of this runtime: its protocol type is %q (state %s, members: %d)", d.Group, d.ProtocolType, d.State, len(d.Members))
	case d.Protocol != "" && d.Protocol != group.Protocol:
		return fmt.Errorf("group %q is no application of this runtime: its members are consumers with the protocol %q, and this runtime's is %q (state %s, members: %d)",
			d.Group, d.Protocol, group.Protocol, d.State, len(d.Members))
	}
	return nil
}
