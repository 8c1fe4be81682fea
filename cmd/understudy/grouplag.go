package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func groupLag(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var (
		to     target
		watch  time.Duration
		asJSON bool
	)
	set := to.flagSet("group lag", 30*time.Second, diagnostics)
	to.groupFlags(set)
	set.DurationVar(&watch, "watch", 0, "look again and again with this pause between, until interrupted; -timeout is for each look then")
	set.BoolVar(&asJSON, "json", false, "print JSON, with -watch one value for each look")
	err := to.parse(set, args, func() string {
		if watch < 0 {
			return fmt.Sprintf("-watch is %v: it must be positive, or 0 for one look", watch)
		}
		return ""
	})
	if err != nil {
		return err
	}
	once := func(ctx context.Context, client *kafka.Client) error {
		v, err := lagOf(ctx, client, to.app, time.Now())
		if err != nil {
			return err
		}
		return errors.Join(show(out, asJSON, v), v.unknown())
	}
	if watch == 0 {
		return to.reach(ctx, once)
	}
	each := to.timeout
	to.timeout = 0
	return to.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		for first := true; ; first = false {
			look, cancel := context.WithTimeout(ctx, each)
			err := once(look, client)
			cancel()
			switch {
			case ctx.Err() != nil:
				return nil // it is how this ends
			case err != nil && first:
				return err
			case err != nil:
				fmt.Fprintln(diagnostics, "understudy:", err)
			}
			if outside.Sleep(ctx, watch) != nil {
				return nil
			}
			if !asJSON {
				fmt.Fprintln(out)
			}
		}
	})
}

// lagView is how far a group is behind. Its names in JSON stay the same. Numbers and times that are not known are -1; times are in
// milliseconds.
type lagView struct {
	Group      string        `json:"group"`
	Kind       string        `json:"kind"`
	State      string        `json:"state"`
	At         int64         `json:"at"` // when it was looked at
	Lag        int64         `json:"lag"`
	Partitions []lagPart     `json:"partitions"`
	Parked     []parkedCount `json:"parked,omitempty"`
}

// lagPart is a partition. Behind is how old the next record is that is not done; 0 where all are.
type lagPart struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`       // offsets that are not done
	DoneAbove int64  `json:"doneAbove"` // the committed offset: what comes again only after a reset
	Behind    int64  `json:"behindMillis"`
	Problem   string `json:"problem,omitempty"`
}

// parkedCount is how many records lie in a retry topic. They are done as far as offsets go.
type parkedCount struct {
	Topic   string `json:"topic"`
	Records int    `json:"records"`
}

// lagOf looks at a group once.
func lagOf(ctx context.Context, client *kafka.Client, name string, now time.Time) (*lagView, error) {
	f, err := look(ctx, client, name)
	if err != nil {
		return nil, err
	}
	v := &lagView{Group: name, Kind: string(f.kind), State: f.State, At: now.UnixMilli(), Partitions: []lagPart{}}
	parts := f.reads()
	ends, err := client.ListOffsets(ctx, kafka.Latest, parts)
	if err != nil {
		return nil, fmt.Errorf("list the ends of what the group reads: %w", err)
	}
	reader := outside.Reader{Client: client}
	defer reader.Close()
	for _, tp := range parts {
		o, _ := f.of(tp)
		p := partLag(o, ends[tp])
		switch {
		case p.Lag == 0:
			p.Behind = 0
		case p.Lag > 0:
			_, ms, found, err := reader.First(ctx, outside.Span{TopicPartition: tp, From: p.Committed, To: p.End})
			if err != nil {
				p.Problem = plain(allowed(err, "Read", name).Error(), 300)
			} else if found && ms >= 0 {
				p.Behind = max(0, now.UnixMilli()-ms)
			}
		}
		v.Lag += max(0, p.Lag)
		v.Partitions = append(v.Partitions, p)
	}
	if f.kind.Application() {
		v.Parked, err = parkedOf(ctx, client, &reader, name)
	}
	return v, err
}

// reads are the partitions that the group has committed offsets of, and those that it is assigned.
func (f *facts) reads() []task.TopicPartition {
	parts := inputs(f.GroupDescription)
	for _, o := range f.inputOffsets() {
		parts = append(parts, o.TopicPartition)
	}
	slices.SortFunc(parts, task.TopicPartition.Compare)
	return slices.Compact(parts)
}

// partLag is what is known of a partition without a look at its records.
func partLag(o kafka.FetchedOffset, end kafka.ListedOffset) lagPart {
	p := lagPart{Topic: o.Topic, Partition: o.Partition, Committed: -1, End: -1, Lag: -1, Behind: -1}
	if o.Code == kcode.None {
		p.Committed = o.Offset
	} else {
		p.Problem = o.Code.Error()
	}
	if end.Err == nil {
		p.End = end.Offset
	} else {
		p.Problem = plain(end.Err.Error(), 300)
	}
	l := outside.LagOf(p.Committed, o.Metadata, p.End)
	p.Lag, p.DoneAbove = l.Open, l.Done
	if o.Metadata == retry.HalfReset {
		p.Problem = "a reset was begun and is not finished: understudy group reset does the rest"
	}
	if p.Committed > p.End && p.End >= 0 {
		p.Problem = "committed beyond the end: the topic was made anew, or its log was cut off"
	}
	return p
}

// parkedOf counts what lies in the retry topics of an application. Topics that may be another's are left out.
func parkedOf(ctx context.Context, client *kafka.Client, reader *outside.Reader, app string) ([]parkedCount, error) {
	md, err := client.Metadata(ctx, nil)
	if err != nil {
		return nil, err
	}
	var out []parkedCount
	for _, in := range outside.Internals(app, outside.Understudy, topicNames(md.Topics), nil) {
		if in.Purpose != outside.RetrySuffix[1:] {
			continue
		}
		spans, err := outside.Spans(ctx, client, in.Name)
		if err != nil {
			return nil, err
		}
		n := parkedCount{Topic: in.Name}
		var origins []task.TopicPartition
		for _, s := range spans {
			rows, err := reader.Parked(ctx, s, false)
			if err != nil {
				return nil, err
			}
			n.Records += len(rows)
			for _, r := range rows {
				origins = append(origins, task.TopicPartition{Topic: r.Entry.Origin.Topic, Partition: r.Entry.Origin.Partition})
			}
		}
		slices.SortFunc(origins, task.TopicPartition.Compare)
		owner, err := reader.Owner(ctx, app, in.Name, slices.Compact(origins))
		if err != nil {
			return nil, err
		}
		if owner == app {
			out = append(out, n)
		}
	}
	return out, nil
}

// unknown is an error if the lag of some partition could not be had.
func (v *lagView) unknown() error {
	for _, p := range v.Partitions {
		if p.Problem != "" {
			return fmt.Errorf("not all is known of %s-%d: %s", p.Topic, p.Partition, p.Problem)
		}
	}
	return nil
}

func (v *lagView) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group  %s\nkind   %s\nstate  %s\nat     %s\nlag    %d\n", v.Group, v.Kind, v.State, moment(v.At), v.Lag)
	if len(v.Partitions) == 0 {
		b.WriteString("\nThe group has committed nothing.\n")
	} else {
		b.WriteByte('\n')
	}
	table(&b, func(t *tabwriter.Writer) {
		if len(v.Partitions) > 0 {
			fmt.Fprintln(t, "TOPIC\tPARTITION\tCOMMITTED\tEND\tLAG\tTIME\tDONE ABOVE\t")
		}
		for _, p := range v.Partitions {
			above := ""
			if p.DoneAbove > 0 {
				above = known(p.DoneAbove)
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Topic, p.Partition, known(p.Committed), known(p.End), known(p.Lag), age(p.Behind), above, p.Problem)
		}
	})
	for i, p := range v.Parked {
		if i == 0 {
			b.WriteString("\nput aside, to be tried again (understudy retry list names them); their offsets are done\n")
		}
		fmt.Fprintf(&b, "  %s  %d\n", p.Topic, p.Records)
	}
	return b.String()
}

// age is a duration in milliseconds for the eye; - is one that is not known.
func age(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case ms < 0:
		return "-"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.String()
}
