package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		to              target
		asJSON, offsets bool
	)
	set := to.flagSet("group describe", 30*time.Second, diagnostics)
	set.BoolVar(&asJSON, "json", false, "print JSON")
	set.BoolVar(&offsets, "offsets", false, "ask for the committed offset and the lag of each input partition too, and for what is done above it")
	if err := to.parse(set, args); err != nil {
		return err
	}
	return to.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		return describe(ctx, client, to.app, asJSON, offsets, out)
	})
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
	if err := show(out, asJSON, &v); err != nil {
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
		return fmt.Errorf("there is no group %q on these brokers: -app must be the application's id, and the application must have run there; understudy group list names those that are there", d.Group)
	case d.ProtocolType != "" && d.ProtocolType != "consumer":
		return fmt.Errorf("group %q is no application of this runtime: its protocol type is %q (state %s, members: %d); understudy group lag says how far it is behind", d.Group, d.ProtocolType, d.State, len(d.Members))
	case d.Protocol != "" && d.Protocol != group.Protocol:
		return fmt.Errorf("group %q is no application of this runtime: its members are consumers with the protocol %q, and this runtime's is %q (state %s, members: %d); understudy group lag says how far it is behind",
			d.Group, d.Protocol, group.Protocol, d.State, len(d.Members))
	}
	return nil
}
