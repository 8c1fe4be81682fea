package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func retryList(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var (
		to     target
		chosen filter
		source string
		most   int
		asJSON bool
	)
	set := to.flagSet("retry list", 0, diagnostics)
	set.StringVar(&source, "source", "", "only what is parked for this source")
	set.IntVar(&most, "most", 50, "how many records of each source are listed, those that are due first; 0 is all")
	set.BoolVar(&asJSON, "json", false, "print JSON")
	chosen.flags(set)
	err := to.parse(set, args, func() string { return chosen.prepare(time.Now()) }, func() string {
		if most < 0 {
			return fmt.Sprintf("-most is %d: it must be positive, or 0 for all", most)
		}
		return ""
	})
	if err != nil {
		return err
	}
	return to.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		topics, err := topicsOf(ctx, client, to.app, source, parked)
		if err != nil {
			return err
		}
		v := parkedView{App: to.app, Topics: []*parkedTopic{}, now: time.Now().UnixMilli()}
		for _, t := range topics {
			p, err := parkedIn(ctx, client, t.name, &chosen)
			if err != nil {
				return err
			}
			p.finish(most, v.now)
			v.Topics = append(v.Topics, p)
		}
		return show(out, asJSON, &v)
	})
}

// parkedIn reads a retry topic. It is the changelog of a store, so the last row of each key counts; of payloads nothing is kept.
func parkedIn(ctx context.Context, client *kafka.Client, topic string, chosen *filter) (*parkedTopic, error) {
	all, err := outside.Spans(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	v := &parkedTopic{Topic: topic, Records: []*parkedRecord{}}
	r := outside.Reader{Client: client}
	for _, s := range all {
		rows := map[retry.Origin]*parkedRecord{}
		err := r.Scan(ctx, s, func(records []task.Record, _ int64) error {
			for i := range records {
				takeRow(rows, s.Partition, &records[i])
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if row.Problem != "" || chosen.takes(row.entry.Key, row.entry.Topic, row.entry.Class, row.entry.Node, row.entry.First) {
				v.Records = append(v.Records, row)
			}
		}
	}
	return v, nil
}

// takeRow takes a record of the changelog for what it makes of the store.
func takeRow(rows map[retry.Origin]*parkedRecord, partition int32, rec *task.Record) {
	o, payload, err := retry.ParseKey(rec.Key)
	switch {
	case payload:
		return
	case err != nil:
		if rec.Value != nil {
			// Under a name that no record has, so that it is seen.
			rows[retry.Origin{Offset: -1 - rec.Offset}] = &parkedRecord{Partition: partition, Problem: err.Error()}
		}
		return
	case rec.Value == nil:
		delete(rows, o)
		return
	}
	row := &parkedRecord{Partition: partition, Record: originViewOf(o)}
	rows[o] = row
	e, err := retry.DecodeEntry(o, rec.Value)
	switch {
	case errors.Is(err, retry.ErrNewer):
		row.Problem = "written by a newer version: use its understudy command"
		return
	case err != nil:
		row.Problem = err.Error()
		return
	}
	e.Key = bytes.Clone(e.Key)
	row.entry = e
	row.Key, row.Attempt, row.First, row.Due, row.Behind = bytesOf(e.Key), e.Attempt, e.First, e.Due, e.Due == retry.Follows
	row.Class, row.Node, row.Message, row.Redriven, row.Bytes = e.Class, e.Node, e.Message, e.Redriven, e.Bytes
	if e.NullKey {
		row.Key = bytesView{Null: true}
	}
}

// parkedView is what is put aside. Its names in JSON stay the same.
type parkedView struct {
	App    string         `json:"app"`
	Topics []*parkedTopic `json:"topics"`

	now int64
}

type parkedTopic struct {
	Topic    string          `json:"topic"`
	Parked   int             `json:"parked"`
	Due      int             `json:"due"`      // now
	Behind   int             `json:"behind"`   // wait behind another one of their key
	Problems int             `json:"problems"` // rows that cannot be read
	Bytes    int64           `json:"bytes"`    // of their payloads
	Records  []*parkedRecord `json:"records"`  // the first of them
}

// parkedRecord is one record. Times are in milliseconds.
type parkedRecord struct {
	Partition int32      `json:"partition"` // of the retry topic, which is the task's
	Record    originView `json:"record"`    // where it was first read
	Key       bytesView  `json:"key"`
	Attempt   int        `json:"attempt"` // tries that have failed
	First     int64      `json:"first"`
	Due       int64      `json:"due"` // -1 for one that is behind another
	Behind    bool       `json:"behind,omitempty"`
	Class     string     `json:"class"`
	Node      string     `json:"node"`
	Message   string     `json:"message"`
	Redriven  int        `json:"redriven,omitempty"`
	Bytes     int        `json:"bytes"`
	Problem   string     `json:"problem,omitempty"`

	entry retry.Entry
}

type originView struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topicId,omitempty"` // tells it from another one that was made under its name
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func originViewOf(o retry.Origin) originView {
	return originView{Topic: o.Topic, TopicID: o.ID.String(), Partition: o.Partition, Offset: o.Offset}
}

func (o originView) String() string {
	return fmt.Sprintf("%s-%d at offset %d", o.Topic, o.Partition, o.Offset)
}

// finish counts and sorts the records, and keeps the first of them.
func (v *parkedTopic) finish(most int, now int64) {
	for _, r := range v.Records {
		v.Parked++
		v.Bytes += int64(r.Bytes)
		switch {
		case r.Problem != "":
			v.Problems++
		case r.Behind:
			v.Behind++
		case r.Due <= now:
			v.Due++
		}
	}
	slices.SortFunc(v.Records, func(a, b *parkedRecord) int {
		return cmp.Or(order(a.Problem == "", b.Problem == ""), order(a.Behind, b.Behind), cmp.Compare(a.Due, b.Due), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.entry.Seq, b.entry.Seq), cmp.Compare(a.Record.Offset, b.Record.Offset))
	})
	if most > 0 && len(v.Records) > most {
		v.Records = v.Records[:most]
	}
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (v *parkedView) text() string {
	var b strings.Builder
	for i, t := range v.Topics {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s  %d parked (%d bytes), %d of them due, %d behind another of their key", t.Topic, t.Parked, t.Bytes, t.Due, t.Behind)
		if t.Problems > 0 {
			fmt.Fprintf(&b, ", %d that cannot be read", t.Problems)
		}
		b.WriteByte('\n')
		if len(t.Records) == 0 {
			continue
		}
		table(&b, func(w *tabwriter.Writer) {
			fmt.Fprintln(w, "  TASK\tRECORD\tKEY\tATTEMPT\tDUE\tFIRST FAILURE\tCLASS\tNODE\tMESSAGE")
			for _, r := range t.Records {
				fmt.Fprintln(w, "  "+strings.Join(r.row(), "\t"))
			}
		})
		if rest := t.Parked - len(t.Records); rest > 0 {
			fmt.Fprintf(&b, "  and %d more: -most 0 lists all\n", rest)
		}
	}
	return b.String()
}

func (r *parkedRecord) row() []string {
	record := "?"
	if r.Record.Topic != "" {
		record = fmt.Sprintf("%s-%d@%d", r.Record.Topic, r.Record.Partition, r.Record.Offset)
	}
	if r.Problem != "" {
		return []string{fmt.Sprint(r.Partition), plain(record, 200), "?", "?", "?", "?", "?", "?", plain(r.Problem, 200)}
	}
	due, first := moment(r.Due), moment(r.First)
	if r.Behind {
		due = "behind"
	}
	if r.First == 0 {
		first = "-"
	}
	return []string{
		fmt.Sprint(r.Partition), plain(record, 200), keyText(r.Key.raw, r.Key.Null, 40), fmt.Sprint(r.Attempt), due, first,
		or(plain(r.Class, 80), "-"), or(plain(r.Node, 80), "-"), plain(r.Message, 120),
	}
}
