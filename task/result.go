package task

import "github.com/understudy-streams/understudy/statestore"

// Result is what one run of an [Item] came to. Nothing of it has happened yet: the task makes it happen, as one unit, or throws it away.
type Result struct {
	Item *Item
	// Err is why the unit failed: it has written and sent nothing then.
	Err *Error
	// Writes are the rows written, for each store of the Spec, in the order in which their keys were first written.
	Writes [][]statestore.Change

	worker    *Worker // that ran it
	effects   *Effects
	drops     []dropCount
	commit    bool          // RequestCommit was called
	callbacks []func(error) // of CommitAsync; they belong to the nodes of the worker
	node      string        // that ran last

	bytes []byte // that the rows lie in
}

// Sent are the records that the unit sends, by partition. They are valid as long as the result.
func (r *Result) Sent() []Group { return r.effects.Groups }

// empty forgets what a run has left, and keeps the memory.
func (r *Result) empty(stores int) {
	r.Err, r.commit, r.worker = nil, false, nil
	if len(r.Writes) != stores {
		r.Writes = make([][]statestore.Change, stores)
	}
	for i, w := range r.Writes {
		clear(w)
		r.Writes[i] = w[:0]
	}
	clear(r.callbacks)
	r.drops, r.callbacks = r.drops[:0], r.callbacks[:0]
	if r.effects == nil {
		r.effects = &Effects{}
	}
	r.effects.reset()
	if r.bytes = r.bytes[:0]; cap(r.bytes) > maxIdleItem {
		r.bytes = nil
	}
}

// take copies what the open unit of a store has written.
func (r *Result) take(store int, from *statestore.Overlay) {
	for i := range from.DirtyLen() {
		key, row, present, _, _ := from.Dirty(i)
		c := statestore.Change{Timestamp: row.Timestamp}
		r.bytes, c.Key = appendBytes(r.bytes, key)
		if present {
			r.bytes, c.Value = appendBytes(r.bytes, row.Value)
		}
		r.Writes[store] = append(r.Writes[store], c)
	}
}

// apply makes what a worker has done happen here, as one unit, and says whether it was kept: rows through the task's overlays, records into its
// outbox. A result with an error fails the unit. In a task that has stopped nothing is kept.
func (t *Task) apply(r *Result) bool {
	it := r.Item
	over := t.err != nil || t.dead
	if over && it.call == nil {
		t.disown(r, ErrRolledBack)
		return false
	}
	defer t.recovered()
	t.begin(it.Input, it.Record.Offset)
	t.unit.kind = ownUnit // what fails here has not failed there
	t.unit.void, t.unit.quiet = over, t.draining && it.call != nil
	for _, f := range r.callbacks {
		t.env.callbacks = append(t.env.callbacks, t.relay(r.worker, f))
	}
	if r.Err != nil {
		t.env.failed = r.Err
		return t.end()
	}
	t.unit.node = r.node
	t.write(r)
	t.resend(r)
	if it.entry != nil {
		t.dropEntry(it.entry.Origin)
	}
	t.env.commit = r.commit
	t.env.drops = append(t.env.drops, r.drops...)
	if !t.end() {
		return false
	}
	if it.call == nil && it.entry == nil {
		t.stats.Processed++
	}
	return true
}

// write writes the rows of a result.
func (t *Task) write(r *Result) {
	for i, changes := range r.Writes {
		s := t.stores[i]
		for j := range changes {
			c := &changes[j]
			var err error
			if c.Value == nil {
				err = s.Delete(c.Key, c.Timestamp)
			} else {
				err = s.Put(c.Key, c.Value, c.Timestamp)
			}
			if err != nil {
				t.env.Fail("", KindStore, err)
				return
			}
		}
	}
}

// resend copies the records of a result into the outbox. They have been checked when they were sent.
func (t *Task) resend(r *Result) {
	for i := range r.effects.Groups {
		g := &r.effects.Groups[i]
		if len(g.Refs) == 0 {
			continue
		}
		at, err := t.dest(g.To.Topic)
		if err != nil {
			t.env.Fail("", KindProduce, err)
			return
		}
		d := &t.out.dests[at]
		for j := range g.Refs {
			ref := &g.Refs[j]
			key, value := g.Bodies(ref)
			n := len(key) + len(value)
			t.out.learn(n)
			b := append(append(t.out.active.tail(n), key...), value...)
			t.out.add(d, g.To.Partition, t.out.place(b, length(key), length(value), ref.Timestamp, g.Headers(ref)), t.now)
		}
	}
}
