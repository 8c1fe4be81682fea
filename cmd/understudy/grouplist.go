package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

// looksAtOnce bounds how many groups are asked about at the same time.
const looksAtOnce = 8

func groupList(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var (
		to             = target{all: true}
		prefix, match  string
		pattern        *regexp.Regexp
		asJSON, noLags bool
	)
	set := to.flagSet("group list", time.Minute, diagnostics)
	set.StringVar(&prefix, "prefix", "", "only groups whose names begin with this")
	set.StringVar(&match, "match", "", "only groups whose whole names match this regular expression")
	set.BoolVar(&noLags, "fast", false, "do not ask for offsets: no lags, and the kind of a group without members is not known")
	set.BoolVar(&asJSON, "json", false, "print JSON")
	err := to.parse(set, args, func() (fault string) {
		var err error
		if pattern, err = regexp.Compile("^(?:" + match + ")$"); err != nil {
			return fmt.Sprintf("-match is no regular expression: %v", err)
		}
		return ""
	})
	if err != nil {
		return err
	}
	return to.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		all, failed := client.ListGroups(ctx)
		if failed != nil && len(all) == 0 {
			return allowed(failed, "Describe", "*")
		}
		all = slices.DeleteFunc(all, func(g kafka.ListedGroup) bool {
			return !strings.HasPrefix(g.Group, prefix) || match != "" && !pattern.MatchString(g.Group)
		})
		v := &groupsView{Groups: make([]groupRow, len(all))}
		found := lookAtAll(ctx, client, all, !noLags)
		ends, err := endsOf(ctx, client, found)
		for i := range found {
			v.Groups[i] = found[i].row(ends, !noLags)
		}
		return errors.Join(show(out, asJSON, v), failed, err, v.problems())
	})
}

// found is one group of many, and why it could not be looked at.
type found struct {
	facts
	err error
}

// lookAtAll asks about each group; without lags only about its members.
func lookAtAll(ctx context.Context, client *kafka.Client, all []kafka.ListedGroup, lags bool) []found {
	out := make([]found, len(all))
	slots := make(chan struct{}, looksAtOnce)
	var wait sync.WaitGroup
	for i, g := range all {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			out[i] = lookAt(ctx, client, g, lags)
		})
	}
	wait.Wait()
	return out
}

func lookAt(ctx context.Context, client *kafka.Client, g kafka.ListedGroup, lags bool) found {
	out := found{facts: facts{GroupDescription: kafka.GroupDescription{Group: g.Group, State: g.State, ProtocolType: g.ProtocolType}}}
	d, err := client.DescribeGroup(ctx, g.Group)
	switch {
	case err != nil:
		out.err = allowed(err, "Describe", g.Group)
	case d.State != "Dead":
		out.GroupDescription = d
	case g.State != "" && g.State != "Dead":
		out.hidden = true
	}
	if lags && out.err == nil {
		offsets := outside.GroupOffsets{Client: client, Group: g.Group}
		defer offsets.Close()
		if out.offsets, err = offsets.All(ctx); err != nil {
			out.err = allowed(err, "Describe", g.Group)
		}
	}
	out.kind = outside.KindOf(out.ProtocolType, out.Protocol, out.offsets)
	if !lags && out.kind == outside.Consumer && out.Protocol == "" {
		out.kind = ""
	}
	return out
}

// endsOf lists the ends of all that the groups read, each partition once.
func endsOf(ctx context.Context, client *kafka.Client, all []found) (map[task.TopicPartition]kafka.ListedOffset, error) {
	var parts []task.TopicPartition
	for i := range all {
		for _, o := range all[i].inputOffsets() {
			parts = append(parts, o.TopicPartition)
		}
	}
	slices.SortFunc(parts, task.TopicPartition.Compare)
	ends, err := client.ListOffsets(ctx, kafka.Latest, slices.Compact(parts))
	if err != nil {
		return nil, fmt.Errorf("list the ends of what the groups read: %w", err)
	}
	return ends, nil
}

// groupsView are the groups of a cluster. Its names in JSON stay the same.
type groupsView struct {
	Groups []groupRow `json:"groups"`
}

// groupRow is one group. Numbers that are not known are -1. Lag is of the partitions of which it is known.
type groupRow struct {
	Group    string `json:"group"`
	Kind     string `json:"kind"` // empty: not known
	State    string `json:"state"`
	Protocol string `json:"protocol"`
	Members  int    `json:"members"`
	Lag      int64  `json:"lag"`
	Unknown  int    `json:"partitionsUnknown"` // of which no lag is known
	Problem  string `json:"problem,omitempty"`
}

func (f *found) row(ends map[task.TopicPartition]kafka.ListedOffset, lags bool) groupRow {
	r := groupRow{Group: f.Group, Kind: string(f.kind), State: f.State, Protocol: f.Protocol, Members: len(f.Members), Lag: -1}
	if f.hidden && f.State != "Empty" {
		r.Members = -1
	}
	if f.err != nil {
		r.Members, r.Problem = -1, plain(f.err.Error(), 300)
		return r
	}
	if !lags {
		return r
	}
	r.Lag = 0
	for _, o := range f.inputOffsets() {
		end, ok := ends[o.TopicPartition]
		if p := partLag(o, end); ok && p.Lag >= 0 {
			r.Lag += p.Lag
		} else {
			r.Unknown++
		}
	}
	if r.Unknown > 0 && r.Unknown == len(f.inputOffsets()) {
		r.Lag = -1
	}
	return r
}

// problems is an error if something about some group could not be had.
func (v *groupsView) problems() error {
	var first string
	n := 0
	for _, g := range v.Groups {
		if g.Problem != "" {
			n++
			first = cmp.Or(first, g.Problem)
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d groups could not be looked at: %s", n, len(v.Groups), first)
}

func (v *groupsView) text() string {
	if len(v.Groups) == 0 {
		return "No groups.\n"
	}
	var b strings.Builder
	ambiguous := false
	table(&b, func(t *tabwriter.Writer) {
		fmt.Fprintln(t, "GROUP\tKIND\tSTATE\tPROTOCOL\tMEMBERS\tLAG\t")
		for _, g := range v.Groups {
			note := ""
			if g.Unknown > 0 {
				note = fmt.Sprintf("%d partitions unknown", g.Unknown)
			}
			ambiguous = ambiguous || g.Kind == string(outside.Streams)
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", plain(g.Group, 100), or(plain(g.Kind, 30), "?"), or(g.State, "?"), or(plain(g.Protocol, 60), "-"),
				known(int64(g.Members)), known(g.Lag), or(g.Problem, note))
		}
	})
	if ambiguous {
		b.WriteString("\nstreams: an application of this runtime or of Kafka Streams; nobody is in the group to tell.\n")
	}
	return b.String()
}
