package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
)

// deleteOrder is what the command line says.
type deleteOrder struct {
	target
	cleanup
	internal bool
	execute  bool
	asJSON   bool
}

func groupDelete(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var o deleteOrder
	set := o.flagSet("group delete", 2*time.Minute, diagnostics)
	o.groupFlags(set)
	o.cleanup.flags(set)
	set.BoolVar(&o.internal, "internal-topics", false, "delete the application's own topics too: changelogs, repartition, retry and redrive topics")
	executeFlags(set, &o.execute)
	set.BoolVar(&o.asJSON, "json", false, "print JSON")
	err := o.parse(set, args, func() string {
		if o.letters && !o.internal {
			return "-dead-letters needs -internal-topics"
		}
		return ""
	})
	if err != nil {
		return err
	}
	return o.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		p, err := o.plan(ctx, client)
		if err != nil {
			return err
		}
		if o.execute {
			err = o.carryOut(ctx, client, p, diagnostics)
		}
		if err != nil {
			return err
		}
		return show(out, o.asJSON, p)
	})
}

// plan finds out what there is to do. It changes nothing.
func (o *deleteOrder) plan(ctx context.Context, client *kafka.Client) (*deletePlan, error) {
	f, err := look(ctx, client, o.app)
	if err != nil {
		return nil, err
	}
	w, err := worldOf(ctx, client)
	if err != nil {
		return nil, err
	}
	p := o.scope(&f, &w)
	if err := o.parked(ctx, client, p.Delete); err != nil {
		return nil, err
	}
	p.Files, p.Warnings, err = o.state(o.app)
	return p, err
}

// scope says what goes.
func (o *deleteOrder) scope(f *facts, w *world) *deletePlan {
	p := &deletePlan{Group: o.app, Kind: string(f.kind), State: f.State, Refused: f.refused(), Offsets: len(f.offsets), StateDir: o.stateDir, facts: f}
	own := o.sort(outside.Internals(o.app, f.kind, topicNames(w.topics), w.groups))
	switch {
	case o.internal:
		p.Delete, p.Keep, p.Doubt = own.Delete, own.Keep, own.Doubt
	case f.kind.Application():
		p.Left = slices.Concat(own.Delete, own.Keep, own.Doubt)
	}
	return p
}

// carryOut deletes the group last: without it nothing would say what there is to do, if it has to be done again.
func (o *deleteOrder) carryOut(ctx context.Context, client *kafka.Client, p *deletePlan, diagnostics io.Writer) error {
	held, err := begin(p.facts, p.Doubt, o.stateDir)
	if err != nil {
		return err
	}
	defer release(held)
	say := func(format string, args ...any) { fmt.Fprintf(diagnostics, format+"\n", args...) }
	if err := deleteTopics(ctx, client, p.Delete, say); err != nil {
		return o.halfWay(err)
	}
	if o.letters {
		if err := deleteGroup(ctx, client, o.app+redrives, say); err != nil {
			return o.halfWay(err)
		}
	}
	if held != nil {
		for _, path := range held.State {
			say("deleting %s", path)
		}
		if err := held.Remove(); err != nil {
			return o.halfWay(err)
		}
	}
	if err := deleteGroup(ctx, client, o.app, say); err != nil {
		return o.halfWay(err)
	}
	p.Applied = true
	return nil
}

func (o *deleteOrder) halfWay(err error) error {
	if errors.Is(err, kcode.NonEmptyGroup) {
		err = fmt.Errorf("%w: somebody has joined group %q meanwhile: stop all members first", err, o.app)
	}
	return fmt.Errorf("%w: not all is deleted: do the same again", err)
}

// deletePlan is what is deleted, or has been. Its names in JSON stay the same.
type deletePlan struct {
	Group    string     `json:"group"`
	Kind     string     `json:"kind"`
	State    string     `json:"state"`
	Applied  bool       `json:"applied"`
	Refused  string     `json:"executeRefused,omitempty"` // why -execute would do nothing now
	Offsets  int        `json:"offsets"`
	Delete   []topicRow `json:"deletedTopics,omitempty"`
	Keep     []topicRow `json:"keptDeadLetters,omitempty"`
	Doubt    []topicRow `json:"topicsInDoubt,omitempty"`
	Left     []topicRow `json:"leftTopics,omitempty"`
	StateDir string     `json:"stateDir,omitempty"`
	Files    []string   `json:"deletedState,omitempty"`
	Warnings []string   `json:"warnings,omitempty"`

	facts *facts
}

func (p *deletePlan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group  %s\nkind   %s\nstate  %s\n", p.Group, p.Kind, p.State)
	done := func(s string) string {
		if p.Applied {
			return s + " (done)"
		}
		return s
	}
	fmt.Fprintf(&b, "\n%s\n", done(fmt.Sprintf("the group is deleted, with %d committed offsets", p.Offsets)))
	lines(&b, done("topics that are deleted"), rows(p.Delete))
	lines(&b, done("state that is deleted"), p.Files)
	lines(&b, inDoubt, rows(p.Doubt))
	lines(&b, "dead letters, which stay (-dead-letters deletes them)", rows(p.Keep))
	lines(&b, "topics that stay (-internal-topics deletes them): an application of this name begins without offsets and with this state", rows(p.Left))
	lines(&b, "note", p.Warnings)
	if !p.Applied {
		unchanged(&b, p.Refused)
	}
	return b.String()
}
