package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

// resetOrder is what the command line says.
type resetOrder struct {
	target
	cleanup
	to          string
	by          time.Duration
	goal        goal
	topics      []string
	partitions  []int32
	offsetsOnly bool
	execute     bool
	asJSON      bool
}

func groupReset(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var o resetOrder
	set := o.flagSet("group reset", 2*time.Minute, diagnostics)
	o.groupFlags(set)
	o.cleanup.flags(set)
	set.StringVar(&o.to, "to", "", "earliest, latest, an offset, or a time as 2006-01-02T15:04:05Z: the first record that is as late")
	set.DurationVar(&o.by, "by", 0, "to what was written that long ago, counted from now; it does not shift the committed offset")
	set.Func("topic", "only this input (again for a further one); needs -offsets-only where the application has state", func(s string) error {
		o.topics = append(o.topics, s)
		return nil
	})
	set.Func("partition", "only these partitions of the one -topic, separated by commas", func(s string) error {
		for _, n := range strings.Split(s, ",") {
			p, err := strconv.ParseInt(n, 10, 32)
			if err != nil || p < 0 {
				return fmt.Errorf("%q is no partition", n)
			}
			o.partitions = append(o.partitions, int32(p))
		}
		return nil
	})
	set.BoolVar(&o.offsetsOnly, "offsets-only", false, "leave internal topics and state as they are: what is processed again counts twice there")
	executeFlags(set, &o.execute)
	set.BoolVar(&o.asJSON, "json", false, "print JSON")
	if err := o.parse(set, args, func() string { return o.fault(time.Now()) }); err != nil {
		return err
	}
	return o.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		p, err := o.plan(ctx, client)
		if err != nil {
			return err
		}
		if !o.execute {
			return show(out, o.asJSON, p)
		}
		return o.carryOut(ctx, client, p, out, diagnostics)
	})
}

func (o *resetOrder) fault(now time.Time) (fault string) {
	switch {
	case len(o.partitions) > 0 && len(o.topics) != 1:
		return "-partition needs one -topic"
	case o.offsetsOnly && (o.letters || o.stateDir != ""):
		return "-offsets-only leaves everything but offsets as it is: it excludes -dead-letters and -state-dir"
	}
	o.goal, fault = goalOf(o.to, o.by, now)
	return fault
}

// plan finds out what there is to do. It changes nothing.
func (o *resetOrder) plan(ctx context.Context, client *kafka.Client) (*resetPlan, error) {
	f, err := look(ctx, client, o.app)
	if errors.Is(err, errNoGroup) && len(o.topics) > 0 { // it gets offsets that it can begin with
		f, err = facts{GroupDescription: kafka.GroupDescription{Group: o.app, State: "Dead"}, kind: outside.Consumer}, nil
	}
	if err != nil {
		return nil, err
	}
	w, err := worldOf(ctx, client)
	if err != nil {
		return nil, err
	}
	p, err := o.scope(&f, &w)
	if err != nil {
		return nil, err
	}
	if err := o.parked(ctx, client, p.Delete); err != nil {
		return nil, err
	}
	if p.Files, p.Warnings, err = o.state(o.app); err != nil {
		return nil, err
	}
	logs, err := o.logs(ctx, client, p.inputs)
	if err != nil {
		return nil, err
	}
	p.aim(o.goal, &f, logs)
	p.warn(o)
	return p, nil
}

// logs asks for what the goal needs.
func (o *resetOrder) logs(ctx context.Context, client *kafka.Client, parts []task.TopicPartition) (map[task.TopicPartition]bounds, error) {
	starts, err := client.ListOffsets(ctx, kafka.Earliest, parts)
	if err != nil {
		return nil, err
	}
	ends, err := client.ListOffsets(ctx, kafka.Latest, parts)
	if err != nil {
		return nil, err
	}
	since := map[task.TopicPartition]kafka.ListedOffset{}
	if o.goal.kind == toTime {
		times := map[task.TopicPartition]time.Time{}
		for _, tp := range parts {
			times[tp] = o.goal.at
		}
		if since, err = client.ListOffsetsSince(ctx, times); err != nil {
			return nil, err
		}
	}
	out := make(map[task.TopicPartition]bounds, len(parts))
	for _, tp := range parts {
		if err := errors.Join(starts[tp].Err, ends[tp].Err, since[tp].Err); err != nil {
			return nil, allowed(err, "Describe", o.app)
		}
		out[tp] = bounds{starts[tp].Offset, ends[tp].Offset, since[tp]}
	}
	return out, nil
}

// scope says which partitions are reset, and what goes with them.
func (o *resetOrder) scope(f *facts, w *world) (*resetPlan, error) {
	own := o.sort(outside.Internals(o.app, f.kind, topicNames(w.topics), w.groups))
	if o.offsetsOnly && !f.kind.Application() {
		own = owned{} // names alone do not make a topic of a consumer's another thing than an input
	}
	p := &resetPlan{Group: o.app, Kind: string(f.kind), State: f.State, Refused: f.refused(), To: o.goal.flag(), facts: f, StateDir: o.stateDir}
	var err error
	if p.inputs, p.Gone, err = o.inputs(f, w, &own); err != nil {
		return nil, err
	}
	switch {
	case len(p.inputs) == 0:
		return nil, fmt.Errorf("group %q has committed no offset of a topic that is there: name what it reads with -topic", o.app)
	case o.offsetsOnly:
		p.Left = slices.Concat(own.Delete, own.Doubt)
		return p, nil
	case len(o.topics) > 0 && (len(own.Delete)+len(own.Doubt) > 0 || o.stateDir != ""):
		return nil, fmt.Errorf("application %q has topics or state of its own (%s), which are made of all its input: reset all of that, or say -offsets-only to leave them as they are",
			o.app, own.names())
	}
	p.Delete, p.Keep, p.Doubt = own.Delete, own.Keep, own.Doubt
	p.drop, p.redriven = own.offsetsOf(f), len(own.Keep) > 0 && slices.Contains(w.groups, o.app+redrives)
	return p, nil
}

func (o *owned) names() string {
	var all []string
	for _, t := range slices.Concat(o.Delete, o.Doubt) {
		all = append(all, t.Name)
	}
	if len(all) > 3 {
		all = append(all[:3], fmt.Sprintf("and %d more", len(all)-3))
	}
	return or(strings.Join(all, ", "), "-state-dir")
}

// inputs are the partitions that are reset, and the topics of which the group has offsets and which are not there any more. What an
// application has not committed yet is among them, as an application reads topics as a whole; of a consumer's that is not known.
func (o *resetOrder) inputs(f *facts, w *world, own *owned) (parts []task.TopicPartition, gone []string, err error) {
	for _, topic := range o.topics {
		all := w.all(topic)
		switch {
		case len(all) == 0:
			return nil, nil, fmt.Errorf("there is no topic %q on these brokers", topic)
		case own.has(topic):
			return nil, nil, fmt.Errorf("%s is the application's own topic: it goes with a reset of all input, and has no place to be reset to; if it is an input, say so with -leave %s", topic, topic)
		case len(o.partitions) == 0:
			parts = append(parts, all...)
		}
		for _, n := range o.partitions {
			if int(n) >= len(all) {
				return nil, nil, fmt.Errorf("topic %q has %d partitions: there is no partition %d", topic, len(all), n)
			}
			parts = append(parts, all[n])
		}
	}
	if len(o.topics) == 0 {
		for _, c := range f.inputOffsets() {
			switch {
			case own.has(c.Topic):
			case c.Partition >= w.topics[c.Topic]:
				gone = append(gone, c.TopicPartition.String())
			case f.kind.Application():
				parts = append(parts, w.all(c.Topic)...)
			default:
				parts = append(parts, c.TopicPartition)
			}
		}
	}
	slices.SortFunc(parts, task.TopicPartition.Compare)
	return slices.Compact(parts), gone, nil
}
