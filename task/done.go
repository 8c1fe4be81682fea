package task

// done takes the result of an item. hold says that the task is being released, and no result counts any more.
func (t *Task) done(r *Result, hold bool) {
	it := r.Item
	t.watch.end(it)
	if it.call != nil {
		t.calling--
		t.apply(r)
		t.refuseCallbacks()
		return
	}
	c := t.crew
	c.running--
	t.unstall()
	if it.entry != nil {
		c.retries--
	}
	switch {
	case t.err != nil || t.dead:
		t.failure.counts.Stale++
		t.disown(r, ErrRolledBack)
	case hold:
		t.failure.counts.Stale++
		t.disown(r, ErrRolledBack)
		c.requeue(it)
	case it.seen.cancelled && r.Err != nil:
		t.disown(r, ErrRolledBack)
		c.requeue(it)
	case it.seen.stale:
		t.disown(r, ErrRolledBack)
		t.rerun(it)
	case r.Err != nil:
		t.disown(r, ErrRolledBack)
		t.stats.Failed++
		if !t.policyIsFor(r.Err) {
			t.stop(r.Err)
			break
		}
		t.mendItem(it, r.Err)
		t.guard()
	case t.apply(r):
		t.keptItem(it)
	}
	t.refuseCallbacks()
}

// rerunsBeside is how often an item is run by workers before the task runs it itself: nothing is written meanwhile then.
const rerunsBeside = 2

// rerun runs an item again that has read what was written to meanwhile.
func (t *Task) rerun(it *Item) {
	t.failure.counts.Conflicts++
	if it.seen.reruns++; it.seen.reruns < rerunsBeside {
		t.crew.requeue(it)
		return
	}
	it.seen.reruns = 0
	switch kept := t.runHere(it); {
	case kept:
		t.keptItem(it)
	case t.failure.fault != nil:
		t.mend()
	}
}

// runHere runs an item on the task's goroutine, with the task's nodes.
func (t *Task) runHere(it *Item) (kept bool) {
	defer t.recovered()
	t.begin(it.Input, it.Record.Offset)
	t.unit.kind, t.unit.item = itemUnit, it
	now := t.streamTime
	t.streamTime = it.StreamTime
	t.graph.Inputs[it.Input](&it.Record)
	if it.entry != nil && !t.env.Failed() {
		t.dropEntry(it.entry.Origin)
	}
	if !t.end() {
		return false
	}
	t.streamTime = now
	if it.entry == nil {
		t.stats.Processed++
	}
	return true
}

// keptItem finishes an item whose unit was kept.
func (t *Task) keptItem(it *Item) {
	if it.entry != nil {
		t.failure.counts.Recovered++
		t.removed(it.entry)
		t.crew.release(it)
	} else {
		t.finishItem(it)
	}
	if t.failure.troubled {
		t.succeeded()
	}
}

// mendItem decides what becomes of an item that has failed.
func (t *Task) mendItem(it *Item, err *Error) {
	if it.entry == nil {
		t.cameBack(it.Input, it.Record.Offset)
		t.mendRecord(t.subjectOf(it), err)
		return
	}
	entry := it.entry
	t.crew.release(it)
	if e := t.readParked(entry); e != nil { // a dead letter has it whole
		t.stop(t.retryStoreError(e))
		return
	}
	t.mendRetry(entry, err)
}
