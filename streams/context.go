package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// Context is what a [Processor] can do besides using its stores. It belongs to the processor; its methods are called within Start, Process
// and punctuations only.
type Context[KO, VO any] struct {
	in      *instance
	step    *step
	to      producer[KO, VO]
	ts      int64
	headers []Header
}

// enter makes a record or a punctuation the one in hand.
func (c *Context[KO, VO]) enter(ts int64, headers []Header) {
	c.ts, c.headers = ts, headers
	c.in.ts = ts
	c.in.env.Enter(c.step.id)
}

// Forward sends a record to the steps behind this one. What it leaves out comes from the record in hand: a zero Time is its timestamp, nil
// Headers are its headers (an empty slice is none). Time is cut to milliseconds. If a step behind fails, the unit fails, whatever the
// processor returns. A Key or Value beside NullKey or NullValue is not looked at.
func (c *Context[KO, VO]) Forward(r Record[KO, VO]) {
	if !c.in.flowing(c.step) {
		return
	}
	it := &c.to.it
	*it = item[KO, VO]{
		key: r.Key, value: r.Value, nullKey: r.NullKey, nullValue: r.NullValue,
		ts: c.ts, headers: c.headers,
	}
	if !r.Time.IsZero() {
		it.ts = r.Time.UnixMilli()
	}
	if r.Headers != nil {
		it.headers = r.Headers
	}
	if it.ts < 0 {
		c.in.env.Fail(c.step.name, task.KindTimestamp, fmt.Errorf("a record forwarded with timestamp %d: timestamps are not below 0", it.ts))
		return
	}
	var noKey KO
	var noValue VO
	if it.nullKey {
		it.key = noKey
	}
	if it.nullValue {
		it.value = noValue
	}
	c.to.push()
	c.in.ts = c.ts // steps behind may be processors too
	c.in.env.Enter(c.step.id)
}

// Context returns a context for calls to the outside. It is cancelled when the task has to give up the call.
func (c *Context[KO, VO]) Context() context.Context { return c.in.env.Context() }

// Task returns the task.
func (c *Context[KO, VO]) Task() TaskID { return c.in.env.ID() }

// Timestamp returns the timestamp of the record in hand; in a punctuation, the time it is for.
func (c *Context[KO, VO]) Timestamp() time.Time { return timeOf(c.ts) }

// Headers returns the headers of the record in hand, none in a punctuation. They are borrowed until the function returns.
func (c *Context[KO, VO]) Headers() []Header { return c.headers[:len(c.headers):len(c.headers)] }

// Source returns where the record in hand was read by this subtopology. ok is false if there is none: in a punctuation, and behind a table
// that emits at commit.
func (c *Context[KO, VO]) Source() (topic string, partition int32, offset int64, ok bool) {
	topic, partition, offset = c.in.env.Source()
	return topic, partition, offset, offset >= 0
}

// Attempt returns which try of the record in hand this is, from 1. Tries made at once ([retry.Inline]) count as one, and so does a record that comes
// back from the dead letters: it begins with 1. It is 0 where there is no such record, as with Source.
func (c *Context[KO, VO]) Attempt() int { return c.in.env.Attempt() }

// StreamTime returns the highest timestamp the task has seen, with the record in hand; the zero time before the first record.
func (c *Context[KO, VO]) StreamTime() time.Time {
	if ts := c.in.env.StreamTime(); ts >= 0 {
		return timeOf(ts)
	}
	return time.Time{}
}

// WallClock returns the time of day as the task sees it: the same for all records of a turn.
func (c *Context[KO, VO]) WallClock() time.Time { return timeOf(c.in.env.WallClock()) }

// Clock is what a punctuation goes by.
type Clock = task.Clock

const (
	// StreamTime is the highest timestamp of the records seen; it stands still while none come.
	StreamTime = task.StreamTime
	// WallClock is the time of day.
	WallClock = task.WallClock
)

// Schedule calls f at each multiple of every, in a unit of its own, with the time of the clock. Of multiples that passed unseen only one is
// made up for. By stream time the multiples count from 0, by wall clock from now. What f forwards has that time unless it says another, and
// no headers. An error or a panic fails the unit, and no record with it. Less than a millisecond between the calls is an error, and so is
// stream time with a policy of several workers.
func (c *Context[KO, VO]) Schedule(every time.Duration, clock Clock, f func(c *Context[KO, VO], at time.Time) error) (cancel func()) {
	if every < time.Millisecond || f == nil {
		c.in.refuse(c.step, fmt.Errorf("a schedule of every %v: give it a millisecond or more, and a function", every))
		return func() {}
	}
	if clock == StreamTime && c.in.sub.failure.Settings().Workers > 1 {
		c.in.refuse(c.step, errors.New("a schedule by stream time with a policy of several workers, which run records in any order: leave Workers away, or schedule by wall clock"))
		return func() {}
	}
	return c.in.env.Schedule(c.step.name, every, clock, func(ts int64) {
		c.enter(ts, nil)
		if err := f(c, timeOf(ts)); err != nil {
			c.in.env.Fail(c.step.name, task.KindPunctuate, err)
		}
	})
}

// Commit makes the task commit right after this unit and process nothing more before that commit is done. The call does not wait.
func (c *Context[KO, VO]) Commit() { c.in.env.RequestCommit() }

// CommitAsync makes the task commit soon and go on meanwhile. f is called once, between units, with nil after the first commit that covers
// this unit, or with the reason why there is none. What f forwards or puts has the stream time unless it says another, and no headers.
func (c *Context[KO, VO]) CommitAsync(f func(error)) {
	c.in.env.CommitAsync(func(err error) {
		c.enter(max(c.in.env.StreamTime(), 0), nil)
		if f != nil {
			f(err)
		}
	})
}
