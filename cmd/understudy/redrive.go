package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

const (
	chunkRecords = 1000
	// noteEvery is how much time passes between two commits of the progress: what was sent since is sent again if the command is killed.
	noteEvery = time.Second
)

// redriveOrder is what the command line says.
type redriveOrder struct {
	target
	filter
	source, topic string
	apply, again  bool
	asJSON        bool
	rate          float64
}

func dlqRedrive(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	var o redriveOrder
	set := o.flagSet("dlq redrive", 0, diagnostics)
	set.StringVar(&o.source, "source", "", "the source's name, which is its topic's where the program gives none (required where there are several)")
	set.StringVar(&o.topic, "topic", "", "a dead-letter topic that the policy names, instead of <app>-<source>-dlq (needs -source)")
	set.BoolVar(&o.apply, "apply", false, "do it; without this flag the letters are counted and nothing is written")
	set.BoolVar(&o.again, "again", false, "begin with the oldest letter, also with letters that have been redriven before")
	set.Float64Var(&o.rate, "rate", 0, "letters a second at most (default: no limit)")
	set.BoolVar(&o.asJSON, "json", false, "print JSON")
	o.filter.flags(set)
	err := o.parse(set, args, func() string { return o.prepare(time.Now()) }, func() string {
		switch {
		case o.rate < 0:
			return fmt.Sprintf("-rate is %v: it must be positive, or 0 for no limit", o.rate)
		case o.topic != "" && o.source == "":
			return "-topic needs -source: the source whose task is to have the letters"
		}
		return ""
	})
	if err != nil {
		return err
	}
	return o.reach(ctx, func(ctx context.Context, client *kafka.Client) error {
		r, err := o.open(ctx, client)
		if err != nil {
			return err
		}
		defer r.close()
		failed := r.run(ctx)
		return errors.Join(show(out, o.asJSON, &r.view), failed)
	})
}

// open finds the topics and the progress. Nothing has been written when it returns.
func (o *redriveOrder) open(ctx context.Context, client *kafka.Client) (*redrive, error) {
	from := sourceTopic{name: o.topic, source: o.source}
	if o.topic == "" {
		all, err := topicsOf(ctx, client, o.app, o.source, deadLetters)
		if err != nil {
			return nil, err
		}
		if from, err = onlyOne(all); err != nil {
			return nil, err
		}
	} else if o.origin == "" {
		o.origin = o.source // letters of other sources may lie in a topic that a policy names
	}
	to := o.app + "-" + from.source + redrives
	letters, err := outside.Spans(ctx, client, from.name)
	if err != nil {
		return nil, err
	}
	target, err := outside.Spans(ctx, client, to)
	if err != nil {
		return nil, fmt.Errorf("%w: the application makes it with its internal topics when a policy of source %q has dead letters", err, from.source)
	}
	p, err := loadProgress(ctx, client, o.app, letters, o.again)
	if err != nil {
		return nil, err
	}
	r := &redrive{
		order: o, to: to, targets: int32(len(target)), progress: p, letters: letters,
		read: outside.Reader{Client: client}, sender: sender{client: client}, pace: pace{rate: o.rate},
		view: redriveView{App: o.app, Topic: from.name, To: to, Group: p.offsets.Group, Applied: o.apply},
	}
	if !o.again && p.none() && slices.ContainsFunc(target, func(s outside.Span) bool { return s.To > 0 }) {
		r.close()
		return nil, fmt.Errorf("%s has records, and group %q no offsets on %s: the progress of earlier redrives has expired with the group (offsets.retention.minutes), or they were of another topic. "+
			"-again begins with the oldest letter; choose with -from and -to what has not been sent yet", to, p.offsets.Group, from.name)
	}
	return r, nil
}

// redrive sends dead letters back into the application. It holds one fetch of them at a time.
type redrive struct {
	order    *redriveOrder
	to       string
	targets  int32 // partitions of to
	letters  []outside.Span
	progress *progress
	read     outside.Reader
	sender   sender
	pace     pace
	chunk    chunk
	noted    time.Time
	view     redriveView
}

// chunk is what is sent at once: letters of one partition, by the partition that they go to.
type chunk struct {
	to      map[int32][]letterOut
	records int
	bytes   int
}

type letterOut struct {
	offset int64
	record task.OutRecord
}

func (r *redrive) close() {
	r.read.Close()
	r.sender.close()
	r.progress.close()
}

// run goes over the letters that were there at the start. What was sent is noted also if it ends early.
func (r *redrive) run(ctx context.Context) error {
	if r.order.apply {
		// Offsets of partitions without letters are renewed too, as brokers let them expire; and whatever is wrong with the group shows now.
		if err := r.progress.commit(ctx); err != nil {
			return err
		}
		r.noted = time.Now()
	}
	var failed error
	for i := range r.letters {
		if failed = r.partition(ctx, i); failed != nil {
			break
		}
	}
	if !r.order.apply {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(failed, r.progress.commit(ctx))
}

func (r *redrive) partition(ctx context.Context, i int) error {
	s := r.letters[i]
	s.From = max(s.From, r.progress.done[i].low())
	at := s.From
	return r.read.Scan(ctx, s, func(records []task.Record, next int64) error {
		for j := range records {
			if out, ok := r.choose(&records[j], i); ok {
				if err := r.add(ctx, i, out); err != nil {
					return err
				}
			}
		}
		if err := r.flush(ctx, i); err != nil {
			return err
		}
		r.passed(i, at, next, records)
		at = next
		return nil
	})
}

// choose makes the record that comes back to the application, if the letter is one that is to.
func (r *redrive) choose(rec *task.Record, i int) (out letterTo, ok bool) {
	v := &r.view
	v.Letters++
	if r.progress.done[i].has(rec.Offset) {
		v.Before++
		return out, false
	}
	headers := headersOf(rec)
	l, _, is := retry.ParseLetter(headers)
	switch {
	case !is || l.Partition >= r.targets:
		v.Unreadable++
		return out, false
	case !r.order.takes(rec.Key, l.Topic, l.Class, l.Node, l.First):
		v.LeftOut++
		return out, false
	}
	headers, err := retry.Redrive(headers)
	switch {
	case errors.Is(err, retry.ErrNoRecord):
		v.NoRecord++
		return out, false
	case err != nil: // it is a letter, so it has come back too often
		v.Looped++
		return out, false
	}
	out = letterTo{partition: l.Partition, letterOut: letterOut{offset: rec.Offset, record: task.OutRecord{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp}}}
	for _, h := range headers {
		out.record.Headers = append(out.record.Headers, task.Header{Key: h.Key, Value: h.Value})
	}
	return out, true
}

type letterTo struct {
	partition int32
	letterOut
}

// add puts a letter into the chunk, which goes out when it is large.
func (r *redrive) add(ctx context.Context, i int, l letterTo) error {
	c := &r.chunk
	size := len(l.record.Key) + len(l.record.Value)
	for _, h := range l.record.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if c.records > 0 && (c.bytes+size > chunkBytes || c.records >= r.pace.most(chunkRecords)) {
		if err := r.flush(ctx, i); err != nil {
			return err
		}
	}
	if c.to == nil {
		c.to = map[int32][]letterOut{}
	}
	c.to[l.partition] = append(c.to[l.partition], l.letterOut)
	c.records++
	c.bytes += size
	return nil
}

// flush sends the chunk of partition i and notes what is acknowledged. A dry run counts.
func (r *redrive) flush(ctx context.Context, i int) error {
	c := r.chunk
	r.chunk = chunk{}
	if c.records == 0 {
		return nil
	}
	if !r.order.apply {
		r.view.Sent += int64(c.records)
		return nil
	}
	var offsets []int64
	for _, letters := range c.to {
		for _, l := range letters {
			offsets = append(offsets, l.offset)
		}
	}
	slices.Sort(offsets)
	if err := r.progress.fits(i, offsets); err != nil {
		return err
	}
	if err := r.pace.wait(ctx, c.records); err != nil {
		return err
	}
	// What is on its way is waited for also by a command that is interrupted, or nobody knows whether it was written.
	late, cancel := grace(ctx, 5*time.Second)
	defer cancel()
	for p := range r.targets {
		if err := r.send(late, i, p, c.to[p]); err != nil {
			return err
		}
	}
	if time.Since(r.noted) < noteEvery {
		return nil
	}
	r.noted = time.Now()
	return r.progress.commit(ctx)
}

// send writes letters to one partition. If the broker refuses them they are tried one by one: those that it will never take stay where they are.
func (r *redrive) send(ctx context.Context, i int, partition int32, letters []letterOut) error {
	if len(letters) == 0 {
		return nil
	}
	records := make([]task.OutRecord, len(letters))
	for j := range letters {
		records[j] = letters[j].record
	}
	err := r.sender.send(ctx, task.TopicPartition{Topic: r.to, Partition: partition}, records)
	var no *refused
	switch {
	case err == nil:
		r.view.Sent += int64(len(letters))
		for _, l := range letters {
			r.progress.done[i].add(l.offset, l.offset+1)
		}
		return nil
	case !errors.As(err, &no):
		return err
	case len(letters) == 1:
		r.view.refuse(r.letters[i].TopicPartition, letters[0].offset, no)
		return nil
	}
	for j := range letters {
		if err := r.send(ctx, i, partition, letters[j:j+1]); err != nil {
			return err
		}
	}
	return nil
}

// passed notes the offsets of a fetch that hold no letter any more, so that only letters that were left keep the progress back.
func (r *redrive) passed(i int, from, to int64, records []task.Record) {
	if !r.order.apply {
		return
	}
	at := from
	for j := range records {
		r.progress.done[i].add(at, records[j].Offset)
		at = records[j].Offset + 1
	}
	r.progress.done[i].add(at, to)
}
