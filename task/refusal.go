package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// Refusal is a record that a broker has refused after it was handed over: the limit of its topic was lowered, or somebody checks what is written
// there. The unit that made it was done by then. The task goes back to its last commit and makes the record again; with the refusal in its
// Config the unit fails in its place, so that the policy for produce decides.
type Refusal struct {
	Topic string
	Print uint64 // of the record, see Group.Print
	At    int64  // ms since the epoch
	Err   error  // what the broker said
}

// RefusalHolds is for how long a Refusal is remembered. After that the record is sent once more: the limit may have been raised.
const RefusalHolds = 5 * time.Minute

func (r *Refusal) Error() string {
	return fmt.Sprintf("the broker has refused this record for topic %q when it was made before: %v", r.Topic, r.Err)
}

func (r *Refusal) Unwrap() error { return r.Err }

// Holds says whether the refusal still counts.
func (r *Refusal) Holds(now int64) bool { return now-r.At < RefusalHolds.Milliseconds() }

// printOf tells a record from others of its topic by what it consists of.
func printOf(klen, vlen int, bodies []byte, ts int64, headers []Header) uint64 {
	h := fnv.New64a()
	var b [8]byte
	number := func(n int64) {
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	number(int64(klen))
	number(int64(vlen))
	h.Write(bodies)
	number(ts)
	for i := range headers {
		number(int64(len(headers[i].Key)))
		h.Write([]byte(headers[i].Key))
		number(int64(length(headers[i].Value)))
		h.Write(headers[i].Value)
	}
	return h.Sum64()
}

// Print tells a record of the group from others of its topic by what it consists of, for a Refusal.
func (g *Group) Print(i int) uint64 {
	r := &g.Refs[i]
	at := int(r.at)
	end := at + max(int(r.key), 0) + max(int(r.value), 0)
	return printOf(int(r.key), int(r.value), g.in.arena[r.chunk][at:end], r.Timestamp, g.Headers(r))
}

// refusalsOf are those of one topic.
func refusalsOf(all []Refusal, topic string) (of []*Refusal) {
	for i := range all {
		if all[i].Topic == topic {
			of = append(of, &all[i])
		}
	}
	return of
}

// refusedBefore says how the broker has refused the record that is to be sent, nil if it has not.
func (t *Task) refusedBefore(d *destination, b []byte, klen, vlen int, ts int64, h []Header) error {
	which := printOf(klen, vlen, b, ts, h)
	for _, known := range d.refused {
		if known.Print == which && known.Holds(t.now) {
			return known
		}
	}
	return nil
}

// learntRefusal makes a task commit what has become of a record that a broker has refused before it takes another: with that each of its lives
// gets on by one such record at least.
func (t *Task) learntRefusal(err *Error) {
	if _, is := errors.AsType[*Refusal](err.Err); is {
		t.commitFirst()
	}
}
