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
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// drainOrder is what the command line says.
type drainOrder struct {
	target
	filter
	source, topic string
	apply, asJSON bool
}

func retryDrain(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var o drainOrder
	set := o.flagSet("retry drain", 0, diagnostics)
	set.StringVar(&o.source, "source", "", "only what is parked for this source, as retry list names it")
	set.StringVar(&o.topic, "topic", "", "a dead-letter topic that the policy names, instead of <app>-<source>-dlq")
	set.BoolVar(&o.apply, "apply", false, "do it; without this flag the records are counted and nothing is written")
	set.BoolVar(&o.asJSON, "json", false, "print JSON")
	o.filter.flags(set)
	if err := o.parse(set, args, func() string { return o.prepare(time.Now()) }); err != nil {
		return err
	}
	return o.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		topics, err := topicsOf(ctx, client, o.app, o.source, parked)
		if err != nil {
			return err
		}
		d := &drain{
			order: &o, client: client, read: outside.Reader{Client: client}, sender: sender{client: client}, letters: map[string]int32{},
			view: drainView{App: o.app, Applied: o.apply},
		}
		defer d.close()
		for _, t := range topics {
			if err = d.drainTopic(ctx, t); err != nil {
				break
			}
		}
		return errors.Join(show(out, o.asJSON, &d.view), err)
	})
}

// drain makes dead letters of what lies in retry topics. It holds the entries of one partition at a time, and of the records themselves one chunk.
type drain struct {
	order   *drainOrder
	client  *kafka.Client
	read    outside.Reader
	sender  sender
	letters map[string]int32 // partitions of the dead-letter topics that are there
	from    sourceTopic
	part    task.TopicPartition // of the retry topic
	chunk   []drained
	bytes   int
	view    drainView
	now     *drainedTopic
}

// drained is one record on its way: the key of its entry, the letter, and where that goes. Without a topic there is nothing to be written.
type drained struct {
	key    string
	record task.OutRecord
	to     task.TopicPartition
}

func (d *drain) close() {
	d.read.Close()
	d.sender.close()
}

func (d *drain) drainTopic(ctx context.Context, t sourceTopic) error {
	d.from = t
	d.now = &drainedTopic{Topic: t.name}
	d.view.Topics = append(d.view.Topics, d.now)
	all, err := outside.Spans(ctx, d.client, t.name)
	if err != nil {
		return err
	}
	for _, s := range all {
		if d.order.apply {
			if err := d.alone(ctx); err != nil {
				return err
			}
		}
		if err := d.partition(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// alone makes sure that nobody runs the records while they are taken away.
func (d *drain) alone(ctx context.Context) error {
	g, err := d.client.DescribeGroup(ctx, d.order.app)
	if err != nil {
		return err
	}
	if len(g.Members) > 0 || rebalancing(g.State) {
		return fmt.Errorf("group %q has %d members: a retry topic is drained while no process of the application runs; stop them all first", d.order.app, len(g.Members))
	}
	return nil
}

// partition drains one partition of a retry topic: first it finds out what is there, then it goes over the log once more for the payloads.
func (d *drain) partition(ctx context.Context, s outside.Span) error {
	d.part = s.TopicPartition
	rows, err := d.read.Parked(ctx, s, true)
	if err != nil || len(rows) == 0 {
		return err
	}
	if err := d.owned(ctx, rows); err != nil {
		return err
	}
	for key, row := range rows {
		if !d.chosen(row) {
			delete(rows, key)
		}
	}
	err = d.read.Scan(ctx, s, func(records []task.Record, _ int64) error {
		for i := range records {
			if err := d.payload(ctx, rows, &records[i]); err != nil {
				return err
			}
		}
		return d.flush(ctx)
	})
	if err != nil {
		return err
	}
	for key, row := range rows { // those without a payload
		if err := d.without(ctx, key, row); err != nil {
			return err
		}
	}
	return d.flush(ctx)
}

// owned refuses a topic that is another application's, whose id begins with this one's.
func (d *drain) owned(ctx context.Context, rows map[string]*outside.Parked) error {
	var origins []task.TopicPartition
	for _, row := range rows {
		if o := row.Entry.Origin; o.Topic != "" {
			origins = append(origins, task.TopicPartition{Topic: o.Topic, Partition: o.Partition})
		}
	}
	slices.SortFunc(origins, task.TopicPartition.Compare)
	owner, err := d.read.Owner(ctx, d.order.app, d.from.name, slices.Compact(origins))
	if err == nil && owner != d.order.app {
		err = fmt.Errorf("%s is a topic of application %q, which has committed offsets of its records: use -app %s, or name this application's source with -source", d.from.name, owner, owner)
	}
	return err
}

// chosen says whether a record is to be drained, and counts those that are not.
func (d *drain) chosen(row *outside.Parked) bool {
	e := &row.Entry
	switch {
	case errors.Is(row.Err, retry.ErrNewer):
		d.now.Newer++
		return false
	case row.Err == nil && !d.order.takes(e.Key, e.Topic, e.Class, e.Node, e.First), row.Err != nil && d.order.origin != "" && e.Topic != d.order.origin:
		d.now.LeftOut++
		return false
	}
	return true
}

// payload makes the dead letter of a record whose payload this is.
func (d *drain) payload(ctx context.Context, rows map[string]*outside.Parked, rec *task.Record) error {
	o, is, err := retry.ParseKey(rec.Key)
	if err != nil || !is {
		return nil
	}
	key := string(retry.AppendEntryKey(nil, o))
	row := rows[key]
	if row == nil || row.Payload != rec.Offset {
		return nil
	}
	delete(rows, key)
	p, err := retry.DecodePayload(o, rec.Value)
	switch {
	case errors.Is(err, retry.ErrNewer):
		d.now.Newer++
		return nil
	case row.Err != nil && err == nil: // the key is lost
		return d.envelope(ctx, key, row, task.OutRecord{Key: []byte(key), Value: p.Value, Timestamp: max(p.Timestamp, 0)}, p.Headers)
	case row.Err != nil:
		return d.envelope(ctx, key, row, task.OutRecord{Key: []byte(key), Value: rec.Value, Timestamp: time.Now().UnixMilli()}, nil)
	case err != nil:
		return d.envelope(ctx, key, row, task.OutRecord{Key: row.Entry.Key, Value: rec.Value, Timestamp: time.Now().UnixMilli()}, nil)
	}
	e := &row.Entry
	l := letterOfEntry(e)
	out := task.OutRecord{Key: e.Key, Value: p.Value, Timestamp: max(p.Timestamp, 0)}
	return d.add(ctx, key, l, out, p.Headers)
}

// letterOfEntry says of a record what its entry does.
func letterOfEntry(e *retry.Entry) retry.Letter {
	l := retry.Letter{
		Origin: e.Origin, Exception: e.Class, Message: e.Message, Attempts: e.Attempt, First: e.First, Class: classDrained, Node: e.Node, Redriven: e.Redriven,
	}
	if l.Message == "" {
		l.Message = "it was put aside, and taken out of the retry topic"
	}
	if e.Root != (retry.Origin{}) {
		l.Origin = e.Root
	}
	return l
}

const classDrained = "drained"

// envelope makes a dead letter of what there is of a record of which a row cannot be read.
func (d *drain) envelope(ctx context.Context, key string, row *outside.Parked, left task.OutRecord, headers []retry.Header) error {
	d.now.Unreadable++
	l := retry.Letter{Origin: row.Entry.Origin, Class: retry.ClassEnvelope, Message: "the row of a record that was put aside cannot be read"}
	if l.Topic == "" {
		l.Origin = retry.Origin{Topic: d.part.Topic, Partition: d.part.Partition, Offset: row.Offset}
	}
	return d.add(ctx, key, l, left, headers)
}

// without ends an entry without a payload: the record is done, and a crash has cut off the rest.
func (d *drain) without(ctx context.Context, key string, row *outside.Parked) error {
	if row.Err != nil {
		return d.envelope(ctx, key, row, task.OutRecord{Key: []byte(key), Value: row.Row, Timestamp: time.Now().UnixMilli()}, nil)
	}
	d.now.Done++
	return d.push(ctx, drained{key: key})
}

// add puts a letter into the chunk.
func (d *drain) add(ctx context.Context, key string, l retry.Letter, out task.OutRecord, original []retry.Header) error {
	for _, h := range l.AppendHeaders(nil, original) {
		out.Headers = append(out.Headers, task.Header{Key: h.Key, Value: h.Value})
	}
	topic := d.lettersOf(l.Topic)
	d.now.letters(topic)
	n, err := d.partitions(ctx, topic)
	if err != nil {
		return err
	}
	to := task.TopicPartition{Topic: topic, Partition: d.part.Partition % max(n, 1)}
	if out.Key != nil {
		to.Partition = task.PartitionFor(out.Key, max(n, 1))
	}
	return d.push(ctx, drained{key: key, record: out, to: to})
}

// lettersOf is the dead-letter topic for the records of a topic.
func (d *drain) lettersOf(topic string) string {
	if d.order.topic != "" {
		return d.order.topic
	}
	own, is := strings.CutPrefix(topic, d.order.app+"-")
	redriven, was := strings.CutSuffix(own, redrives)
	switch {
	case topic == d.part.Topic:
		own = d.from.source
	case is && was:
		own = redriven
	case !is || !strings.HasSuffix(own, "-repartition"):
		own = topic
	}
	return d.order.app + "-" + own + deadLetters
}

func (d *drain) push(ctx context.Context, r drained) error {
	size := len(r.record.Key) + len(r.record.Value) + len(r.key)
	for _, h := range r.record.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if len(d.chunk) > 0 && (d.bytes+size > chunkBytes || len(d.chunk) >= chunkRecords) {
		if err := d.flush(ctx); err != nil {
			return err
		}
	}
	d.chunk = append(d.chunk, r)
	d.bytes += size
	return nil
}
