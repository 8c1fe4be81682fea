package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

func dlqList(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var (
		to            target
		source, topic string
		asJSON        bool
	)
	set := to.flagSet("dlq list", 0, diagnostics)
	set.StringVar(&source, "source", "", "only the dead letters of this source")
	set.StringVar(&topic, "topic", "", "a dead-letter topic that the policy names, instead of <app>-<source>-dlq")
	set.BoolVar(&asJSON, "json", false, "print JSON")
	if err := to.parse(set, args); err != nil {
		return err
	}
	return to.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		topics := []sourceTopic{{name: topic, source: source}}
		if topic == "" {
			var err error
			if topics, err = topicsOf(ctx, client, to.app, source, deadLetters); err != nil {
				return err
			}
		}
		c := newCounts(to.app)
		for _, t := range topics {
			if err := c.count(ctx, client, t.name); err != nil {
				return err
			}
		}
		return show(out, asJSON, c.view())
	})
}

// maxKinds bounds how many kinds of letters are told apart: what tells them apart is what their headers say, and anybody may have written
// those.
const maxKinds = 1000

// kind is what letters are counted by.
type kind struct{ topic, class, node string }

// counts counts letters. It keeps none of them.
type counts struct {
	app   string
	kinds map[kind]*kindView
}

func newCounts(app string) *counts { return &counts{app: app, kinds: map[kind]*kindView{}} }

func (c *counts) count(ctx context.Context, client *kafka.Client, topic string) error {
	all, err := outside.Spans(ctx, client, topic)
	if err != nil {
		return err
	}
	p, err := loadProgress(ctx, client, c.app, all, false)
	if err != nil {
		return err
	}
	defer p.close()
	r := outside.Reader{Client: client}
	for i, s := range all {
		err := r.Scan(ctx, s, func(records []task.Record, _ int64) error {
			for j := range records {
				c.add(topic, &records[j], p.done[i].has(records[j].Offset))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *counts) add(topic string, rec *task.Record, redriven bool) {
	k, first, times := kind{topic: topic}, int64(-1), 0
	if l, _, ok := letterOf(rec); ok {
		k.class, k.node, times = or(plain(l.Class, 200), "-"), plain(l.Node, 200), l.Redriven
		if l.First > 0 {
			first = l.First
		}
	}
	v := c.kinds[k]
	if v == nil && len(c.kinds) >= maxKinds {
		k.class, k.node = "(others)", ""
		v = c.kinds[k]
	}
	if v == nil {
		v = &kindView{Topic: topic, Class: k.class, Node: k.node, First: -1, Last: -1}
		c.kinds[k] = v
	}
	v.Letters++
	v.Bytes += int64(len(rec.Key) + len(rec.Value))
	if redriven {
		v.Redriven++
	}
	v.Again = max(v.Again, times)
	if first >= 0 && (v.First < 0 || first < v.First) {
		v.First = first
	}
	v.Last = max(v.Last, first)
}

// listView is what is in the dead-letter topics. Its names in JSON stay the same.
type listView struct {
	App   string      `json:"app"`
	Kinds []*kindView `json:"kinds"`
}

// kindView are the letters of one topic, class and node. Times are in milliseconds, -1 where no letter says one.
type kindView struct {
	Topic    string `json:"topic"`
	Class    string `json:"class"` // empty: what lies there is no dead letter
	Node     string `json:"node"`
	Letters  int64  `json:"letters"`
	Bytes    int64  `json:"bytes"`        // of keys and values
	Redriven int64  `json:"redriven"`     // of the letters
	Again    int    `json:"mostRedrives"` // that a record among them had behind it when it died
	First    int64  `json:"first"`        // first failures
	Last     int64  `json:"last"`
}

func (c *counts) view() *listView {
	v := &listView{App: c.app, Kinds: []*kindView{}}
	for _, k := range c.kinds {
		v.Kinds = append(v.Kinds, k)
	}
	slices.SortFunc(v.Kinds, func(a, b *kindView) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Node, b.Node))
	})
	return v
}

func (v *listView) text() string {
	if len(v.Kinds) == 0 {
		return "No dead letters.\n"
	}
	var b strings.Builder
	table(&b, func(t *tabwriter.Writer) {
		fmt.Fprintln(t, "TOPIC\tCLASS\tNODE\tLETTERS\tREDRIVEN\tFIRST FAILURE\tLAST FAILURE")
		for _, k := range v.Kinds {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", k.Topic, or(k.Class, "?"), or(k.Node, "-"), k.Letters, k.Redriven, moment(k.First), moment(k.Last))
		}
	})
	return b.String()
}
