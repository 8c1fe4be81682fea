package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func dlqShow(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var (
		to                target
		source, topic, as string
		partition         int
		offset            int64
		most              int
		asJSON            bool
	)
	set := to.flagSet("dlq show", 0, diagnostics)
	set.StringVar(&source, "source", "", "the source's name (required where there are several)")
	set.StringVar(&topic, "topic", "", "a dead-letter topic that the policy names, instead of <app>-<source>-dlq")
	set.IntVar(&partition, "partition", -1, "where the letter lies in the dead-letter topic (default: the first partition that has one)")
	set.Int64Var(&offset, "offset", -1, "the letter's offset there; the next one is shown where none has it (default: the oldest)")
	set.StringVar(&as, "as", "auto", "how keys and values are printed: text, hex, or auto for text where they are")
	set.IntVar(&most, "bytes", 4096, "how much of each value is printed; 0 is all")
	set.BoolVar(&asJSON, "json", false, "print JSON, with keys and values whole")
	err := to.parse(set, args, func() string {
		switch {
		case as != "auto" && as != "text" && as != "hex":
			return fmt.Sprintf("-as is %q: it must be auto, text or hex", as)
		case most < 0:
			return fmt.Sprintf("-bytes is %d: it must be positive, or 0 for all", most)
		case offset >= 0 && partition < 0:
			return "-offset needs -partition"
		}
		return ""
	})
	if err != nil {
		return err
	}
	return to.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		if topic == "" {
			all, err := topicsOf(ctx, client, to.app, source, deadLetters)
			if err != nil {
				return err
			}
			one, err := onlyOne(all)
			if err != nil {
				return err
			}
			topic = one.name
		}
		v, err := findLetter(ctx, client, topic, partition, offset)
		if err != nil {
			return err
		}
		v.as, v.most = as, most
		return show(out, asJSON, v)
	})
}

// findLetter reads the first letter at or above an offset.
func findLetter(ctx context.Context, client *kafka.Client, topic string, partition int, offset int64) (*letterView, error) {
	all, err := outside.Spans(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	if partition >= len(all) {
		return nil, fmt.Errorf("%s has %d partitions, and no number %d", topic, len(all), partition)
	}
	r := outside.Reader{Client: client}
	for _, s := range all {
		if partition >= 0 && s.Partition != int32(partition) {
			continue
		}
		s.From = max(s.From, offset)
		var found *letterView
		err := r.Scan(ctx, s, func(records []task.Record, _ int64) error {
			if len(records) == 0 {
				return nil
			}
			found = letterViewOf(s.TopicPartition, &records[0])
			return errFound
		})
		if found != nil {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if offset >= 0 {
		return nil, fmt.Errorf("%s-%d has no letter at offset %d or above", topic, partition, offset)
	}
	return nil, fmt.Errorf("%s has no letters there", topic)
}

// letterView is one letter. Its names in JSON stay the same.
type letterView struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp int64        `json:"timestamp"` // of the record, milliseconds
	Letter    *letterFacts `json:"letter"`    // null where it is no dead letter
	Headers   []headerView `json:"headers"`   // the record's own
	Key       bytesView    `json:"key"`
	Value     bytesView    `json:"value"`

	as   string
	most int
}

// letterFacts are what the headers of a dead letter say. Times are in milliseconds.
type letterFacts struct {
	Record    originView  `json:"record"`
	Row       string      `json:"row,omitempty"`  // of a row that belongs to no record: its store, or for a punctuation its processor
	Root      *originView `json:"root,omitempty"` // of the record that this one was made from
	Class     string      `json:"class"`
	Node      string      `json:"node"`
	Task      string      `json:"task"`
	Exception string      `json:"exception"`
	Message   string      `json:"message"`
	Stack     string      `json:"stack,omitempty"`
	Attempts  int         `json:"attempts"`
	First     int64       `json:"first"`
	Redriven  int         `json:"redriven"`
}

func factsOf(l *retry.Letter) *letterFacts {
	f := &letterFacts{
		Record: originViewOf(l.Origin), Row: l.Row, Class: l.Class, Node: l.Node, Task: l.Task, Exception: l.Exception, Message: l.Message, Stack: l.Stack,
		Attempts: l.Attempts, First: l.First, Redriven: l.Redriven,
	}
	if l.Root != (retry.Origin{}) {
		root := originViewOf(l.Root)
		f.Root = &root
	}
	return f
}

type headerView struct {
	Name  string    `json:"name"`
	Value bytesView `json:"value"`
}

// bytesView are bytes: null, text, or else hex. One of the three is set.
type bytesView struct {
	Null bool   `json:"null,omitempty"`
	Text string `json:"text,omitempty"`
	Hex  string `json:"hex,omitempty"`

	raw []byte
}

func bytesOf(b []byte) bytesView {
	switch {
	case b == nil:
		return bytesView{Null: true}
	case utf8.Valid(b):
		return bytesView{Text: string(b), raw: append([]byte{}, b...)}
	default:
		return bytesView{Hex: hex.EncodeToString(b), raw: append([]byte{}, b...)}
	}
}

func letterViewOf(tp task.TopicPartition, rec *task.Record) *letterView {
	v := &letterView{
		Topic: tp.Topic, Partition: tp.Partition, Offset: rec.Offset, Timestamp: rec.Timestamp, Headers: []headerView{},
		Key: bytesOf(rec.Key), Value: bytesOf(rec.Value),
	}
	l, headers, ok := letterOf(rec)
	if ok {
		v.Letter = factsOf(&l)
	} else {
		headers = headersOf(rec)
	}
	for _, h := range headers {
		v.Headers = append(v.Headers, headerView{Name: h.Key, Value: bytesOf(h.Value)})
	}
	return v
}

func (v *letterView) text() string {
	var b strings.Builder
	table(&b, func(t *tabwriter.Writer) {
		fmt.Fprintf(t, "letter\t%s-%d at offset %d\n", v.Topic, v.Partition, v.Offset)
		if v.Letter == nil {
			fmt.Fprintf(t, "record\tis no dead letter: it has not the headers of one\n")
		} else {
			v.facts(t)
		}
		fmt.Fprintf(t, "timestamp\t%s\n", moment(v.Timestamp))
	})
	if v.Letter != nil && v.Letter.Stack != "" {
		b.WriteString("\nstack\n")
		for line := range strings.Lines(v.Letter.Stack) {
			fmt.Fprintf(&b, "  %s\n", plain(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "), 500))
		}
	}
	if len(v.Headers) > 0 {
		b.WriteString("\nheaders\n")
		table(&b, func(t *tabwriter.Writer) {
			for _, h := range v.Headers {
				fmt.Fprintf(t, "  %s\t%s\n", plain(h.Name, 200), keyText(h.Value.raw, h.Value.Null, 200))
			}
		})
	}
	v.body(&b, "key", v.Key)
	v.body(&b, "value", v.Value)
	return b.String()
}

func (v *letterView) facts(t *tabwriter.Writer) {
	l := v.Letter
	row := func(name, what string) {
		if what != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, plain(what, 500))
		}
	}
	if l.Row != "" {
		row("row of", l.Row)
	} else {
		row("record", l.Record.String())
	}
	if l.Root != nil {
		row("made from", l.Root.String())
	}
	row("class", l.Class)
	row("node", l.Node)
	row("task", l.Task)
	row("exception", l.Exception)
	row("message", l.Message)
	row("attempts", fmt.Sprint(l.Attempts))
	if l.First > 0 {
		row("first failure", moment(l.First))
	}
	if l.Redriven > 0 {
		row("redriven", fmt.Sprintf("%d times before", l.Redriven))
	}
}

// body prints a key or a value.
func (v *letterView) body(b *strings.Builder, name string, x bytesView) {
	if x.Null {
		fmt.Fprintf(b, "\n%s  null\n", name)
		return
	}
	raw, cut := x.raw, ""
	if v.most > 0 && len(raw) > v.most {
		raw, cut = raw[:v.most], fmt.Sprintf(", the first %d are", v.most)
		for len(raw) > 0 && asText(x.raw) && !utf8.Valid(raw) {
			raw = raw[:len(raw)-1] // not in the middle of a letter
		}
	}
	text := v.as == "text" || v.as == "auto" && asText(x.raw)
	if !text {
		fmt.Fprintf(b, "\n%s  %d bytes%s\n%s", name, len(x.raw), cut, hex.Dump(raw))
		return
	}
	fmt.Fprintf(b, "\n%s  %d bytes%s\n", name, len(x.raw), cut)
	for line := range strings.Lines(string(raw)) {
		fmt.Fprintf(b, "  %s\n", plain(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "), len(line)))
	}
}

// errFound ends a scan early.
var errFound = errors.New("found")
