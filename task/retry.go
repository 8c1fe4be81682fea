package task

import (
	"errors"

	"github.com/understudy-streams/understudy/retry"
)

// retry runs the record that is due. It is false where it fails.
func (t *Task) retry() bool {
	p := t.failure.pool
	if len(p.spoiled) > 0 {
		return t.quarantine()
	}
	item, on := t.dueEntry()
	if item == nil {
		return on
	}
	if !t.onTrial(item) {
		return t.err == nil
	}
	p.index.Start(item)
	i := p.inputs[item.Topic]
	t.begin(i, item.Offset)
	t.unit.kind, t.unit.retried = retryUnit, item
	now := t.streamTime
	t.streamTime = item.Stream
	t.graph.Inputs[i](&p.rec)
	if !t.env.Failed() {
		t.dropEntry(item.Origin)
	}
	if !t.end() {
		return false
	}
	t.streamTime = now
	t.failure.counts.Recovered++
	t.removed(item)
	if t.failure.circuit != nil {
		t.failure.circuit.Succeeded()
	}
	return true
}

// dueEntry reads the record put aside that is due first. It is nil where there is none, or it cannot be read; on is false if the store has failed.
func (t *Task) dueEntry() (item *retry.Item, on bool) {
	p := t.failure.pool
	if item = t.failure.suspects.trial; item == nil {
		item = p.index.Due(t.now)
	}
	if item == nil {
		return nil, true
	}
	found, on := t.parked(item)
	if !found {
		return nil, on
	}
	return item, true
}

// parked reads a record put aside. found is false if it cannot be read: then it is not in the index any more, unless on says that the store has failed.
func (t *Task) parked(item *retry.Item) (found, on bool) {
	p := t.failure.pool
	err := t.readParked(item)
	switch {
	case err == nil:
		return true, true
	case errors.Is(err, errNoPayload): // it is done
		return false, t.dropRetry(item, nil)
	case errors.Is(err, retry.ErrNewer):
		t.removed(item) // those behind it go on, as they would if the entry were of a newer version too
		p.leaveNewer(item.Origin, true)
		t.alarmNewer(item.Origin)
		return false, true
	case errors.Is(err, retry.ErrCorrupt):
		t.removed(item) // those behind it go on
		p.spoiled = append(p.spoiled, retry.AppendEntryKey(nil, item.Origin))
		return false, true
	}
	t.stop(t.retryStoreError(err))
	return false, false
}

func (t *Task) retryStoreError(err error) *Error {
	return &Error{Task: t.cfg.ID, Partition: -1, Offset: -1, Node: "retry store", Kind: KindStore, Err: err}
}

// entryInput is the input whose entry node takes the records of an input.
func (t *Task) entryInput(i int) int {
	if to := t.cfg.Spec.Inputs[i].Redrives; to > 0 {
		return to - 1
	}
	return i
}

// removed forgets a record that was put aside and is done.
func (t *Task) removed(item *retry.Item) {
	t.failure.pool.index.Remove(item, t.now)
	t.trialOver(item)
	t.guard()
}

// comesAgain lets a record put aside be tried again, when it is due.
func (t *Task) comesAgain(item *retry.Item) {
	t.failure.pool.index.Again(item)
	t.trialOver(item)
}

// mendRetry decides what becomes of a record that was put aside and has failed again.
func (t *Task) mendRetry(item *retry.Item, err *Error) {
	d := t.decide(t.cfg.Spec.Failure.For(string(err.Kind)), err, item.Attempt+1, item.First)
	err.Attempts = item.Attempt + 1
	if item.Attempt == 0 || t.failure.circuit != nil && t.failure.circuit.Open() {
		t.told(d, err) // that of a record which has failed before says nothing new, but as a probe
	}
	err.Topic, err.Partition, err.Offset = item.Topic, item.Partition, item.Offset
	switch {
	case d.Verdict == retry.Skipped:
		t.leaveOut(d.Reason, 1)
		t.dropRetry(item, nil)
	case d.Verdict == retry.Again:
		t.againRetry(item, err, d)
	case d.End == retry.EndSkip:
		t.failure.counts.Skipped++
		t.endRetry(item, err, d)
	case d.End == retry.EndDeadLetter:
		t.endRetry(item, err, d)
	default:
		t.comesAgain(item)
		t.stop(err)
	}
}

// againRetry puts a record off once more.
func (t *Task) againRetry(item *retry.Item, err *Error, d retry.Decision) {
	t.failure.counts.Retried++
	item.Attempt, item.Due, item.Kind, item.Class, item.Node = d.Attempt, d.At, string(err.Kind), d.Class, err.Node
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.putEntry(item, err.Err.Error())
	t.end()
	t.comesAgain(item)
}

// endRetry ends a record that was put aside and has failed for good, and sees to those that wait behind it.
func (t *Task) endRetry(item *retry.Item, err *Error, d retry.Decision) {
	set := &t.failure.set
	followers := t.failure.pool.index.Followers(item)
	together := 1
	if set.Followers == retry.FollowersToo {
		together += len(followers)
	}
	if d.End == retry.EndDeadLetter && t.flooded(together) {
		item.Due = t.failure.until
		t.comesAgain(item)
		return
	}
	if len(followers) > 0 && set.Followers == retry.FollowersStop {
		t.comesAgain(item)
		t.stop(err)
		return
	}
	if !t.dropRetry(item, t.letterOfRetry(item, err, d)) || set.Followers != retry.FollowersToo {
		return
	}
	for _, f := range followers {
		behind := d
		behind.Class = "follower"
		if !t.endFollower(f, err, behind) {
			return
		}
	}
}

// endFollower ends a record as the one that it has waited behind. It is false if the store has failed.
func (t *Task) endFollower(item *retry.Item, err *Error, d retry.Decision) bool {
	found, on := t.parked(item)
	if !found {
		return on
	}
	return t.dropRetry(item, t.letterOfRetry(item, err, d))
}

// dropRetry deletes a record that was put aside, and writes its dead letter, if there is one, in one unit.
func (t *Task) dropRetry(item *retry.Item, l *letter) bool {
	t.begin(-1, -1)
	t.unit.node = "dead letter"
	t.dropEntry(item.Origin)
	if l != nil {
		t.send(l)
	}
	if !t.end() {
		return false
	}
	if l != nil {
		t.letterSent(l)
	}
	t.removed(item)
	return true
}

// admit looks at the record at the head of an input before it is taken. taken says that it is to be processed; else on says whether to go on
// with what is at the head then.
func (t *Task) admit(i int, r *Record) (taken, on bool) {
	if p := t.failure.pool; p != nil && p.index.Inert() > 0 {
		t.overdue(i, r.Offset)
	}
	if w := t.in.all[i].window; w != nil && r.Offset < w.Next() && !w.IsOpen(r.Offset) {
		t.skipped(i, r) // it was done out of its order
		return false, true
	}
	if t.keptNewer(i, r) {
		return false, t.err == nil
	}
	if !t.suspectAllows(i, r) {
		return false, t.failure.fault == nil && !t.halted()
	}
	if t.in.all[i].redrives {
		return t.redriven(i, r)
	}
	p := t.failure.pool
	if p == nil {
		return true, true
	}
	if p.index.Inert() > 0 && t.meet(i, r) {
		t.skipped(i, r)
		t.guard()
		return false, t.err == nil
	}
	if t.err != nil {
		return false, false
	}
	if !p.index.Closed(r.Key, r.Key == nil) {
		return true, true
	}
	if p.index.Depth(r.Key) > t.failure.set.Depth || !p.room(&t.failure) {
		t.crowded()
		return false, false
	}
	t.follow(t.head(i, r))
	t.guard()
	return false, t.err == nil
}

// crowded makes the main path wait for retries: there is no room for one more record behind them.
func (t *Task) crowded() {
	f := &t.failure
	t.unname()
	f.pool.fresh = freshPerRetry
	switch due := f.pool.index.NextDue(); {
	case t.crew != nil && t.crew.running > 0:
		t.crew.stalled = true
	case due > t.now:
		t.holdOff(min(due, t.now+1000), "so many records wait behind one of their key that no more are put aside")
	}
}

// activate lets a record run that was put aside before the last crash.
func (t *Task) activate(item *retry.Item) {
	if !t.failure.pool.index.Activate(item) {
		return
	}
	message := t.messageOf(item)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.putEntry(item, message)
	t.end()
}

// messageOf is what the store says of the last failure of a record put aside: the index does not keep it.
func (t *Task) messageOf(item *retry.Item) string {
	p := t.failure.pool
	p.key = retry.AppendEntryKey(p.key[:0], item.Origin)
	row, found, err := p.store.Get(p.key)
	if err != nil || !found {
		return ""
	}
	e, _ := retry.DecodeEntry(item.Origin, row.Value)
	return e.Message
}

// found lets a record run that was put aside before the last crash, as the main path has come to it. Its payload may not have been written.
func (t *Task) found(item *retry.Item, r *Record) {
	p := t.failure.pool
	err := t.readParked(item)
	if err == nil || errors.Is(err, retry.ErrNewer) {
		t.activate(item)
		return
	}
	p.index.Activate(item)
	p.payload = appendPayload(p.payload[:0], item.Origin, r)
	message := t.messageOf(item)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.putEntry(item, message)
	t.putPayload(item.Origin)
	t.end()
}

// passed lets those inert records run that the main path has passed without finding them: the source does not have them any more.
func (t *Task) passed() {
	p := t.failure.pool
	if p == nil || p.index.Inert() == 0 {
		return
	}
	for i := range t.in.all {
		t.overdue(i, t.in.all[i].position)
	}
	t.guard()
}

// overdue lets the inert records of an input run that lie below an offset. Those of a gap wait for the second path, which finds them.
func (t *Task) overdue(i int, below int64) {
	p := t.failure.pool
	if g := t.gap(i); g != nil {
		below = min(below, g.window.Read())
	}
	for p.index.Inert() > 0 {
		item := p.index.Overdue(t.cfg.Spec.Inputs[i].Topic, t.cfg.ID.Partition, below)
		if item == nil || t.crew != nil && t.crew.occupied(item.Key) {
			return
		}
		t.activate(item)
	}
}

// guard notes which inputs have records that must be looked at before they are taken.
func (t *Task) guard() {
	f := &t.failure
	all := f.suspects.active || f.pool != nil && (f.pool.index.Inert() > 0 || len(f.pool.newer.unseen) > 0 || f.set.Mode == retry.ModeKeyOrdered && f.pool.index.Len() > 0)
	for i := range t.in.all {
		q := &t.in.all[i]
		q.guarded = all || q.redrives || q.window != nil
	}
}
