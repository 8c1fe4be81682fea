package task

import (
	"fmt"

	"github.com/understudy-streams/understudy/retry"
)

// quarantine ends a row of the retry store that cannot be read: no retry can run it. It is false if that cannot be done now.
func (t *Task) quarantine() bool {
	p := t.failure.pool
	key := p.spoiled[0]
	row, _, err := p.store.Get(key)
	if err != nil {
		t.stop(t.retryStoreError(err))
		return false
	}
	o, _, kerr := retry.ParseKey(key)
	says := &Error{Task: t.cfg.ID, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Node: "retry store", Kind: KindDecode,
		Err: fmt.Errorf("the row of a record that was put aside cannot be read: %w", retry.ErrCorrupt)}
	if t.failure.set.Then != retry.EndDeadLetter {
		t.stop(says)
		return false
	}
	if t.flooded(1) {
		return false
	}
	input, r := 0, Record{Key: key, Value: append([]byte(nil), row.Value...), Timestamp: t.rowTime()}
	if kerr == nil {
		input = p.inputs[o.Topic] // 0 for a topic that is not read any more
		if err := t.salvage(o, &r); err != nil {
			t.stop(t.retryStoreError(err))
			return false
		}
	}
	l := t.letterFor(t.entryInput(input), &r, says, retry.ClassEnvelope, 0, t.now)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	if kerr == nil {
		t.dropEntry(o)
	} else if e := p.store.Delete(key, t.rowTime()); e != nil {
		t.env.Fail("retry store", KindStore, e)
	}
	t.send(l)
	if !t.end() {
		return false
	}
	t.letterSent(l)
	p.spoiled = p.spoiled[1:]
	return true
}

// salvage makes of the row of an entry what there is of its record, as one of the two rows may be whole: the key, or value, headers and timestamp.
// Where the payload is damaged its row is the value.
func (t *Task) salvage(o retry.Origin, r *Record) error {
	if e, err := retry.DecodeEntry(o, r.Value); err == nil {
		r.Key = e.Key
	}
	row, found, err := t.failure.pool.store.Get(retry.AppendPayloadKey(nil, o))
	if err != nil || !found {
		return err
	}
	r.Value = append([]byte(nil), row.Value...)
	if p, err := retry.DecodePayload(o, r.Value); err == nil {
		r.Value, r.Headers, r.Timestamp = p.Value, taskHeaders(p.Headers), p.Timestamp
	}
	return nil
}
