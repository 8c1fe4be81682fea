package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// executeFlags are those of commands that change nothing unless they are told to.
func executeFlags(set *flag.FlagSet, execute *bool) {
	set.BoolVar(execute, "execute", false, "do it; without this flag it is said what would be done, and nothing is changed")
	set.BoolVar(execute, "apply", false, "the same as -execute")
}

// carryOut does what the plan says. First the offsets, with a note that the reset is half done: brokers refuse them while somebody is in the
// group, and an application that is started from there on refuses to run. Then what there is besides, and last the offsets without the note.
func (o *resetOrder) carryOut(ctx context.Context, client *kafka.Client, p *resetPlan, out, diagnostics io.Writer) error {
	held, err := begin(p.facts, p.Doubt, o.stateDir)
	if err != nil {
		return err
	}
	defer release(held)
	offsets := outside.GroupOffsets{Client: client, Group: o.app}
	defer offsets.Close()
	say := func(format string, args ...any) { fmt.Fprintf(diagnostics, format+"\n", args...) }
	commit := func(half bool) error {
		return occupied(allowed(offsets.Commit(ctx, p.offsets(half)), "Read", o.app), o.app)
	}
	if p.more() {
		say("committing %d offsets, as of a reset that is half done", len(p.Parts))
		if err := commit(true); err != nil {
			return err
		}
		if err := o.clear(ctx, client, p, held, say); err != nil {
			return o.halfWay(err)
		}
	}
	say("committing %d offsets", len(p.Parts))
	if err := commit(false); err != nil {
		if p.more() {
			return o.halfWay(err)
		}
		return err
	}
	p.Applied = true
	return show(out, o.asJSON, p)
}

func (o *resetOrder) halfWay(err error) error {
	return fmt.Errorf("%w: the reset is half done, and until it is done the application refuses to run: do the same again, with -to %s", err, o.goal.flag())
}

// clear deletes what the plan names beside offsets.
func (o *resetOrder) clear(ctx context.Context, client *kafka.Client, p *resetPlan, held *pebblestore.Held, say func(string, ...any)) error {
	if err := dropOffsets(ctx, client, o.app, p.drop, say); err != nil {
		return err
	}
	if err := deleteTopics(ctx, client, p.Delete, say); err != nil {
		return err
	}
	if o.letters { // what is noted of their redrives would be taken for that of letters to come
		if err := deleteGroup(ctx, client, o.app+redrives, say); err != nil {
			return err
		}
	}
	if held == nil {
		return nil
	}
	for _, path := range held.State {
		say("deleting %s", path)
	}
	return held.Clear()
}

// begin makes sure that nothing stands in the way of what is to be done to a group, and locks the state directory: nil if there is none.
func begin(f *facts, doubt []topicRow, stateDir string) (*pebblestore.Held, error) {
	if err := errors.Join(f.alone(), (&owned{Doubt: doubt}).doubtful()); err != nil {
		return nil, err
	}
	return hold(stateDir, f.Group)
}

// release gives the lock of begin back.
func release(held *pebblestore.Held) {
	if held != nil {
		_ = held.Close() // it only gives the lock back
	}
}

// refused says why -execute would do nothing now, empty if it would. That topics are in doubt is said where they are named.
func (f *facts) refused() string {
	if err := f.alone(); err != nil {
		return err.Error()
	}
	return ""
}

// unchanged ends what is said of a plan that is not carried out.
func unchanged(b *strings.Builder, refused string) {
	if refused != "" {
		fmt.Fprintf(b, "\nNothing was changed, and -execute would be refused now: %s\n", refused)
		return
	}
	b.WriteString("\nNothing was changed: -execute does it.\n")
}

// hold locks the state directory. It is nil if there is none.
func hold(stateDir, app string) (*pebblestore.Held, error) {
	if stateDir == "" {
		return nil, nil
	}
	held, err := pebblestore.Hold(stateDir, app)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return held, err
}

// occupied explains why a group does not take offsets from outside.
func occupied(err error, app string) error {
	if errors.Is(err, kcode.UnknownMemberID) || errors.Is(err, kcode.RebalanceInProgress) || errors.Is(err, kcode.IllegalGeneration) {
		return fmt.Errorf("%w: somebody has joined group %q meanwhile: stop all members first", err, app)
	}
	return err
}

// dropOffsets deletes committed offsets of topics that are about to go: the topics that are made anew begin at 0.
func dropOffsets(ctx context.Context, client *kafka.Client, app string, parts []task.TopicPartition, say func(string, ...any)) error {
	if len(parts) == 0 {
		return nil
	}
	say("deleting %d offsets of internal topics", len(parts))
	failed, err := client.DeleteOffsets(ctx, app, parts)
	if err != nil {
		return allowed(err, "Delete", app)
	}
	for _, tp := range parts {
		if err := failed[tp]; err != nil && !errors.Is(err, kcode.UnknownTopicOrPartition) {
			return fmt.Errorf("delete the committed offset of %s: %w", tp, allowed(err, "Delete", app))
		}
	}
	return nil
}

const (
	topicsAtOnce = 20
	goneWithin   = 10 * time.Second
)

// deleteTopics deletes topics, and waits until brokers name them no more: one that is made anew before that would be refused.
func deleteTopics(ctx context.Context, client *kafka.Client, topics []topicRow, say func(string, ...any)) error {
	var all []string
	for _, t := range topics {
		all = append(all, t.Name)
	}
	for chunk := range slices.Chunk(all, topicsAtOnce) {
		for _, t := range chunk {
			say("deleting topic %s", t)
		}
		failed, err := client.DeleteTopics(ctx, chunk)
		if err != nil {
			return err
		}
		for _, t := range chunk {
			switch err := failed[t]; {
			case err == nil || errors.Is(err, kcode.UnknownTopicOrPartition):
			case errors.Is(err, kcode.TopicDeletionDisabled):
				return fmt.Errorf("%w: the brokers delete no topics: set delete.topic.enable=true there, or have somebody delete it", err)
			default:
				return allowed(err, "Delete", t)
			}
		}
	}
	return areGone(ctx, client, all)
}

func areGone(ctx context.Context, client *kafka.Client, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	for end := time.Now().Add(goneWithin); ; {
		md, err := client.Metadata(ctx, topics)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(topics), func(t string) bool {
			return md.Topics[t] == nil || md.Topics[t].Err == kcode.UnknownTopicOrPartition
		})
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the brokers still name topics %v after they were deleted: does somebody make them anew?", strings.Join(left, ", "))
		}
		if err := outside.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// deleteGroup deletes a group, unless it is gone already.
func deleteGroup(ctx context.Context, client *kafka.Client, name string, say func(string, ...any)) error {
	say("deleting group %s", name)
	err := client.DeleteGroup(ctx, name)
	if errors.Is(err, kcode.GroupIDNotFound) {
		return nil
	}
	return allowed(err, "Delete", name)
}
