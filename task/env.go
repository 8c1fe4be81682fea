package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/understudy-streams/understudy/statestore"
)

// Env is what the nodes of one task see of it. It belongs to the task's goroutine.
type Env struct {
	t *Task

	// The running unit.
	input     int // -1 where the unit has no source record
	offset    int64
	failed    *Error
	callbacks []func(error) // of CommitAsync
	drops     []dropCount
	commit    bool // RequestCommit was called

	ctx context.Context // of the running unit; nil is the task's
}

// ID names the task.
func (e *Env) ID() ID { return e.t.cfg.ID }

// Context is for user functions that can fail or wait, and is asked for in each unit. It ends when the task's life does, when a call outlasts
// the watchdog, or on a worker when the policy's time for one try is over.
func (e *Env) Context() context.Context {
	if e.ctx != nil {
		return e.ctx
	}
	return e.t.cfg.Context
}

// Store returns the store with this index in Spec.Stores.
func (e *Env) Store(i int) *statestore.Overlay { return e.t.stores[i] }

// StreamTime returns the highest timestamp taken so far in milliseconds, that of the running record included; -1 before the first record.
func (e *Env) StreamTime() int64 { return e.t.streamTime }

// WallClock returns the time at which the running turn of the task began, in milliseconds since the epoch; 0 before the first turn.
func (e *Env) WallClock() int64 { return e.t.now }

// Source returns where the record of the running unit came from. In emissions and punctuations there is none: the topic is empty,
// partition and offset are -1.
func (e *Env) Source() (topic string, partition int32, offset int64) {
	if e.input < 0 {
		return "", -1, -1
	}
	return e.t.cfg.Spec.Inputs[e.input].Topic, e.t.cfg.ID.Partition, e.offset
}

// Attempt says which try of its record the running unit is, from 1: tries made at once count as one. It is 0 where there is no source record.
func (e *Env) Attempt() int {
	u := &e.t.unit
	tries := func(tr *tries) int {
		if tr.offset == e.offset {
			return tr.attempt + 1
		}
		return 1
	}
	switch {
	case e.input < 0:
		return 0
	case u.kind == retryUnit:
		return u.retried.Attempt + 1
	case u.kind == itemUnit:
		return u.item.Attempt + 1
	case u.kind == replayUnit:
		return tries(u.gap.tries)
	}
	return tries(&e.t.failure.tries[e.input])
}

// Enter says which node, by its index in Spec.Nodes, is about to run the user's code, for the error of a panic, and for that of a Send that is
// refused. The last call counts. In emissions, punctuations and callbacks the node they belong to is entered already.
func (e *Env) Enter(node int) { e.t.unit.entered = node + 1 }

// Fail fails the running unit: whatever it wrote or sent is undone when its nodes have returned. The first call wins.
func (e *Env) Fail(node string, kind Kind, err error) {
	if e.failed != nil {
		return
	}
	if err == nil {
		err = errors.New("failed without an error")
	}
	if node == "" {
		node = e.t.node()
	}
	topic, partition, offset := e.Source()
	e.failed = &Error{Task: e.t.cfg.ID, Topic: topic, Partition: partition, Offset: offset, Node: node, Kind: kind, Err: err}
}

// Failed says whether the running unit has failed. Nodes stop forwarding then.
func (e *Env) Failed() bool { return e.failed != nil }

// Tail returns an empty slice at the end of the effects arena. A node appends the encoded key, then the encoded value, and passes the
// result to Send. It must not call Tail or Send in between.
func (e *Env) Tail() []byte { return e.t.out.tail() }

// Send sends a record to the destination with this index. b is a slice from Tail with klen bytes of key and vlen bytes of value appended
// (-1 is null); bytes from elsewhere are copied. A partition of -1 is chosen from the key as Java's producer does, and is the task's own
// modulo the number of partitions where the key is null. Headers are copied. What the broker would refuse fails the unit.
func (e *Env) Send(dest int, partition int32, b []byte, klen, vlen int, ts int64, h []Header) {
	if e.failed != nil {
		return
	}
	o := e.t.out
	d := &o.dests[dest]
	o.learn(len(b))
	if len(h) == 0 && partition < 0 && d.plain.holds(klen, len(b), ts, e.t.now) { // nearly all: nothing can be wrong with them
		partition = d.plain.partition(b[:klen])
	} else {
		var err error
		if partition, err = e.t.check(d, partition, b, klen, vlen, ts, h); err != nil {
			e.Fail("", KindProduce, err)
			return
		}
	}
	o.add(d, partition, o.place(b, klen, vlen, ts, h), e.t.now)
}

// Dest returns the index of a destination that is only known at run time. It is an error if no such topic is known.
func (e *Env) Dest(topic string) (int, error) {
	return e.t.dest(topic)
}

// RequestCommit makes the task commit when the running unit is done, and take nothing more before that commit is done.
func (e *Env) RequestCommit() { e.commit = true }

// CommitAsync makes the task commit soon and go on. f is called once between units on the task's goroutine, in the order of the calls,
// with nil after the first commit that covers the running unit, or with ErrReleased, ErrLost, ErrRolledBack or the commit's error.
func (e *Env) CommitAsync(f func(error)) {
	if f == nil {
		f = func(error) {}
	}
	e.callbacks = append(e.callbacks, f)
}

// Dropped counts n records that the task left out for this reason. The counts of a failed unit are undone with it.
func (e *Env) Dropped(reason string, n int) {
	e.drops = append(e.drops, dropCount{reason, int64(n)})
}

// Schedule calls f every so often (at least a millisecond) with the time of that clock in milliseconds, in a unit of its own. Of the times
// that passed since the last call only one is made up for, and the schedule stays on its grid. For StreamTime the grid is the multiples of
// every, beginning after the stream time at this call, with 0 where there is none yet; for WallClock it begins one interval after now.
// cancel may be called at any time, from f too. On a worker it fails the build of the nodes, or the unit.
func (e *Env) Schedule(node string, every time.Duration, clock Clock, f func(ts int64)) (cancel func()) {
	if e.t.worker || e.t.crew != nil {
		e.Fail(node, KindProcess, errScheduled)
		return func() {}
	}
	now := e.t.now
	if !e.t.started {
		now = notStarted
	}
	return e.t.timers.add(node, every, clock, f, e.t.streamTime, now)
}

// plain is what a destination takes without a second look: records with a key and no headers, within these bounds. The zero value is nothing.
type plain struct {
	below         int   // key and value have fewer bytes
	before, after int64 // ms, how far a timestamp may be from now
	partitions    int32
	mask          int32 // where their number is a power of two, else 0
}

func (p *plain) holds(klen, bytes int, ts, now int64) bool {
	return klen >= 0 && bytes < p.below && ts >= 0 && ts-now <= p.after && now-ts <= p.before
}

func (p *plain) partition(key []byte) int32 {
	hash := murmur2(key) & 0x7fffffff
	if p.mask != 0 { // a division takes as long as the rest of the hash
		return hash & p.mask
	}
	return hash % p.partitions
}

// plainOf is what can be said of a destination once its partitions are known.
func (t *Task) plainOf(d *destination) plain {
	n := d.partitions
	if n <= 0 || len(d.refused) > 0 {
		return plain{}
	}
	p := plain{below: t.cfg.MaxRecordBytes + 1, before: math.MaxInt64, after: math.MaxInt64, partitions: n}
	if n&(n-1) == 0 {
		p.mask = n - 1
	}
	if l := d.limits.RecordBytes; l > 0 {
		p.below = min(p.below, l+1)
	}
	if l := d.limits.Before; l > 0 {
		p.before = l.Milliseconds()
	}
	if l := d.limits.After; l > 0 {
		p.after = l.Milliseconds()
	}
	return p
}

// check settles the partition of a record. The error says why the broker would not take it, or that there is no such partition.
func (t *Task) check(d *destination, wanted int32, b []byte, klen, vlen int, ts int64, h []Header) (int32, error) {
	if err := t.refuse(d, klen, vlen, ts, h); err != nil {
		return 0, err
	}
	if len(d.refused) > 0 {
		if err := t.refusedBefore(d, b, klen, vlen, ts, h); err != nil {
			return 0, err
		}
	}
	var key []byte
	if klen >= 0 {
		key = b[:klen]
	}
	return t.partition(d, wanted, key)
}

// refuse says why the broker would not take a record.
func (t *Task) refuse(d *destination, klen, vlen int, ts int64, h []Header) error {
	size := max(klen, 0) + max(vlen, 0)
	for i := range h {
		size += len(h[i].Key) + len(h[i].Value)
	}
	limit := t.cfg.MaxRecordBytes
	if n := d.limits.RecordBytes; n > 0 {
		limit = min(limit, n)
	}
	switch {
	case size > limit:
		return fmt.Errorf("a record of %d bytes for topic %q, which takes %d: raise the limit of the topic and MaxRecordBytes, or split it",
			size, d.Topic, limit)
	case klen < 0 && (d.Compacted || d.limits.Compacted):
		return fmt.Errorf("a record with a null key for topic %q, which is compacted: give it a key", d.Topic)
	case ts < 0:
		return fmt.Errorf("a record with timestamp %d for topic %q: timestamps are not below 0", ts, d.Topic)
	case d.limits.After > 0 && ts-t.now > d.limits.After.Milliseconds():
		return fmt.Errorf("a record with timestamp %d for topic %q, which takes none more than %v ahead of now: raise message.timestamp.after.max.ms",
			ts, d.Topic, d.limits.After)
	case d.limits.Before > 0 && t.now-ts > d.limits.Before.Milliseconds():
		return fmt.Errorf("a record with timestamp %d for topic %q, which takes none more than %v behind now: raise message.timestamp.before.max.ms",
			ts, d.Topic, d.limits.Before)
	}
	return nil
}

// partition settles the partition of a record.
func (t *Task) partition(d *destination, wanted int32, key []byte) (int32, error) {
	if d.partitions == 0 {
		d.partitions = t.cfg.Partitions(d.Topic)
		d.plain = t.plainOf(d)
	}
	n := d.partitions
	switch {
	case n <= 0:
		return 0, fmt.Errorf("topic %q is not known: create it", d.Topic)
	case wanted >= n:
		return 0, fmt.Errorf("partition %d of topic %q, which has %d", wanted, d.Topic, n)
	case wanted >= 0:
		return wanted, nil
	case key == nil:
		return t.cfg.ID.Partition % n, nil
	}
	return PartitionFor(key, n), nil
}

// dest finds or adds a destination by topic.
func (t *Task) dest(topic string) (int, error) {
	if i, ok := t.destByTopic[topic]; ok {
		return i, nil
	}
	n := t.cfg.Partitions(topic)
	if n <= 0 {
		return 0, fmt.Errorf("topic %q is not known: create it", topic)
	}
	return t.addDest(Dest{Topic: topic}, n), nil
}

func (t *Task) addDest(d Dest, partitions int32) int {
	i := len(t.out.dests)
	added := destination{Dest: d, partitions: partitions, refused: refusalsOf(t.cfg.Refused, d.Topic)}
	if t.cfg.Limits != nil {
		added.limits = t.cfg.Limits(d.Topic)
	}
	added.plain = t.plainOf(&added)
	t.out.dests = append(t.out.dests, added)
	if _, ok := t.destByTopic[d.Topic]; !ok {
		t.destByTopic[d.Topic] = i
	}
	return i
}
