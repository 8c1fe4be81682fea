package task

import (
	"bytes"
	"errors"
	"hash/fnv"

	"github.com/understudy-streams/understudy/retry"
)

// A topic may be deleted and made anew under its name while records of it are put aside. What comes at their offsets then are other records, and
// both are to be processed: those that were put aside are the former topic's, as their ids say, and run beside what the present one has. No main path
// comes to them again, so they wait for none. Where an id is not known, with an old broker or in a row of before there were ids, records are told
// apart by what is in them.

// topicID is the id of the topic of an input.
func (t *Task) topicID(i int) retry.TopicID {
	if i < len(t.cfg.TopicIDs) {
		return t.cfg.TopicIDs[i]
	}
	return retry.TopicID{}
}

// meet looks for the entry of a record that a path has come to, and lets it run. It is false where the record is a new one.
func (t *Task) meet(i int, r *Record) bool {
	p, o := t.failure.pool, t.origin(i, r.Offset)
	for p.index.Inert() > 0 && t.err == nil {
		item, inert := p.index.Find(o)
		if item == nil || !inert {
			return false
		}
		if t.isOf(item, o, r) {
			t.found(item, r)
			return true
		}
		t.setApart(item, o)
	}
	return false
}

// isOf says that an entry is that of a record, whose origin is o.
func (t *Task) isOf(item *retry.Item, o retry.Origin, r *Record) bool {
	switch {
	case item.ID == o.ID && o.ID != (retry.TopicID{}):
		return true
	case item.NullKey != (r.Key == nil) || !bytes.Equal(item.Key, r.Key):
		return false
	}
	if t.readParked(item) != nil {
		return true // its payload may not have been written
	}
	return t.failure.pool.rec.isLike(r)
}

// isLike says that a record of the retry store may be one that was read.
func (r *Record) isLike(other *Record) bool {
	same := r.Timestamp == other.Timestamp || other.Timestamp < 0 // which was given one before it was put aside
	return same && (r.Value == nil) == (other.Value == nil) && bytes.Equal(r.Value, other.Value)
}

// setApart lets an entry run that is of another record than that of the origin o, which has its offset. Where only the record's origin tells the two
// apart it gets another one.
func (t *Task) setApart(item *retry.Item, o retry.Origin) {
	t.activate(item)
	if item.ID != o.ID || t.err != nil {
		return
	}
	p := t.failure.pool
	switch err := t.readParked(item); {
	case errors.Is(err, errNoPayload): // nothing is left of it
		t.dropRetry(item, nil)
		return
	case err != nil:
		return // it is seen to when it is due
	}
	was, message := item.Origin, t.messageOf(item)
	to := was
	to.ID = madeUpID(&p.rec)
	p.index.Rename(item, to)
	if item.Origin == was { // it has been set apart before, and the crash came before it was deleted here
		t.dropRetry(item, nil)
		return
	}
	p.payload = appendPayload(p.payload[:0], to, &p.rec)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.dropEntry(was)
	t.putEntry(item, message)
	t.putPayload(to)
	t.end()
}

// madeUpID stands for the id of a topic that is not known. It follows from a record: so it is the same however often that is set apart, and
// another one for another record of the offset.
func madeUpID(r *Record) (id retry.TopicID) {
	h := fnv.New128a()
	var at [8]byte
	for i := range at {
		at[i] = byte(r.Timestamp >> (8 * i))
	}
	h.Write(at[:])
	h.Write(r.Key)
	h.Write([]byte{0})
	h.Write(r.Value)
	h.Sum(id[:0])
	return id
}

// makeWay sees to an entry that stands where one of a record is to be made. One that is of this record stays.
func (t *Task) makeWay(e *retry.Entry, r *Record) {
	item, _ := t.failure.pool.index.Find(e.Origin)
	switch {
	case item == nil:
	case t.isOf(item, e.Origin, r):
		e.Origin = item.Origin
	case item.ID == e.ID:
		t.setApart(item, e.Origin)
	}
}
