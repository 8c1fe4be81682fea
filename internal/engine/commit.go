package engine

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// sealedCommit is the commit of a task that is outstanding. It goes through its phases in order: acks, offsets, store.
type sealedCommit struct {
	*task.Sealed
	phase   phase
	plain   bool      // the broker refused the metadata: offsets only
	retryAt time.Time // its offsets were refused: not again before this
	tries   int
}

type phase uint8

const (
	awaitAcks phase = iota
	awaitGather
	awaitOffsets
	awaitStore
)

// committer gathers the tasks whose acks are in and commits their offsets in one request. A task that is not ready contributes nothing
// and delays nobody.
type committer struct {
	request uint64 // the CommitOffsets on the way
	sent    []*life
	gather  time.Time // when the gathering ends; zero: nothing is ready
	retryAt time.Time // the coordinator could not be asked: no request before this
	tries   int
}

func (c *committer) drop() { *c = committer{} }

func (e *Engine) taskSealed(s *task.Sealed) {
	l := e.alive(s.Task, s.Epoch)
	if l == nil || l.state == lifeClosing {
		return
	}
	l.sealed = &sealedCommit{Sealed: s}
	e.acksIn(l)
}

func (e *Engine) effectsDone(a EffectsAcked) {
	l := e.alive(a.Task, a.Epoch)
	if l == nil || l.state == lifeClosing {
		return
	}
	l.acked = a.Seq
	l.leadAcked()
	for _, g := range a.Offsets {
		e.wrote(l, g)
	}
	e.acksIn(l)
}

// wrote advances the position of a store over records of its changelog that are ours, as long as they follow each other. If they do
// not, somebody else wrote between them, and the stored position stays where everything before it is known until that is repaired.
func (e *Engine) wrote(l *life, g GroupOffset) {
	for i := range l.ends {
		if l.spec.Stores[i].Changelog != g.Topic || l.id.Partition != g.Partition {
			continue
		}
		next := &l.ends[i]
		if l.holes[i] != nil {
			next = &l.holes[i].next
		}
		if g.Base > *next {
			e.note(Notice{Kind: NoticeForeignWriter, Task: l.id, Part: g.TopicPartition, Position: *next, End: g.Base})
			next = e.foundHole(l, i, g.Base)
		}
		*next = max(*next, g.Base+int64(g.Count))
		return
	}
}

func (e *Engine) acksIn(l *life) {
	s := l.sealed
	if s == nil || s.phase != awaitAcks || l.acked < s.Seq {
		return
	}
	s.phase = awaitGather
	if e.committer.gather.IsZero() {
		e.committer.gather = e.now.Add(e.cfg.Gather)
	}
}

// flushCommits sends the offsets of all tasks that are ready, if none are on the way and no more are to be waited for.
func (e *Engine) flushCommits() {
	c := &e.committer
	if c.request != 0 || c.gather.IsZero() {
		return
	}
	if e.now.Before(c.retryAt) {
		e.wakeAt(c.retryAt)
		return
	}
	var ready []*life
	more, refused := false, false
	for _, l := range e.order {
		switch {
		case l.sealed == nil:
		case l.sealed.phase == awaitAcks:
			more = true
		case l.sealed.phase == awaitGather && e.now.Before(l.sealed.retryAt):
			refused = true
			e.wakeAt(l.sealed.retryAt)
		case l.sealed.phase == awaitGather:
			ready = append(ready, l)
		}
	}
	if len(ready) == 0 {
		if !refused {
			c.gather = time.Time{}
		}
		return
	}
	if more && e.now.Before(c.gather) {
		e.wakeAt(c.gather)
		return
	}
	e.sendCommit(ready)
	if refused { // their turn comes when this answer is in
		c.gather = e.now
	}
}

func (e *Engine) sendCommit(ready []*life) {
	member, generation, coordinator := e.member.Membership()
	if generation < 0 {
		return // lost; the tasks are told
	}
	c := &e.committer
	c.gather, c.request, c.sent = time.Time{}, e.request(), ready
	a := CommitOffsets{Request: c.request, Coordinator: coordinator, MemberID: member, Generation: generation}
	for _, l := range ready {
		l.sealed.phase = awaitOffsets
		for _, o := range l.sealed.Offsets {
			if e.outlived(l, o.TopicPartition) {
				continue
			}
			if l.sealed.plain {
				o.Metadata = ""
			}
			a.Offsets = append(a.Offsets, o)
		}
	}
	if len(a.Offsets) == 0 {
		e.offsetsCommitted(OffsetsCommitted{Request: c.request})
		return
	}
	e.do(a)
}

func (e *Engine) offsetsCommitted(ev OffsetsCommitted) {
	c := &e.committer
	if e.boardWritten(ev) || ev.Request != c.request || c.request == 0 {
		return
	}
	sent := c.sent
	c.request, c.sent = 0, nil
	again := false
	for _, l := range sent {
		if l.sealed == nil || l.sealed.phase != awaitOffsets || e.alive(l.id, l.epoch) == nil {
			continue // ended meanwhile
		}
		if tp, code := e.worst(l, ev); code == kcode.None {
			e.offsetsIn(l)
		} else {
			again = e.commitRefused(l, tp, code, ev.Err) || again
		}
	}
	if again {
		c.gather = e.now
	}
	if ev.Err == nil && ev.Code == kcode.None {
		c.tries = 0
		return
	}
	c.retryAt = e.now.Add(e.backoff(c.tries))
	c.tries++
}

// anew lets what was refused under an old generation go under the new one at once.
func (e *Engine) anew() {
	e.committer.retryAt, e.committer.tries = time.Time{}, 0
	for _, l := range e.order {
		if l.sealed != nil {
			l.sealed.retryAt, l.sealed.tries = time.Time{}, 0
		}
	}
}

// worst returns the first partition of a commit that was not taken. Of a topic that was deleted, and is not read any more, none is.
func (e *Engine) worst(l *life, ev OffsetsCommitted) (task.TopicPartition, kcode.Code) {
	code := ev.Code
	if ev.Err != nil {
		code = kcode.NetworkException
	}
	for _, o := range l.sealed.Offsets {
		if e.outlived(l, o.TopicPartition) {
			continue
		}
		c := code
		if c == kcode.None {
			if at, ok := ev.Codes[o.TopicPartition]; ok {
				c = at
			} else {
				c = kcode.Unknown
			}
		}
		if c != kcode.None && !(c == kcode.UnknownTopicOrPartition && e.dispensable(o.Topic)) {
			return o.TopicPartition, c
		}
	}
	return task.TopicPartition{}, kcode.None
}

// commitRefused decides what a refusal means. An old generation is no fencing: the commit is sent again under the new one, for as long as
// the task's epoch is unbroken (if it is not, the task is told by Lost). It reports whether to try again.
func (e *Engine) commitRefused(l *life, tp task.TopicPartition, code kcode.Code, err error) bool {
	switch code {
	case kcode.OffsetMetadataTooLarge:
		l.sealed.plain = true
	case kcode.GroupAuthorizationFailed, kcode.TopicAuthorizationFailed, kcode.InvalidTopic:
		refused := &CommitError{Part: tp, Code: code}
		e.fail(refused)
		e.committed(l, refused)
		return false
	case kcode.UnknownTopicOrPartition:
		if e.state == Closing {
			e.committed(l, firstErr(e.err, code)) // nobody looks any more whether it comes back
			return false
		}
		e.lookForTopics() // it may be back soon; if not, that ends the application
	}
	e.note(Notice{Kind: NoticeCommitRefused, Task: l.id, Part: tp, Err: firstErr(err, code)})
	l.sealed.phase = awaitGather
	l.sealed.retryAt = e.now.Add(e.backoff(l.sealed.tries))
	l.sealed.tries++
	return true
}

// offsetsIn goes on to the store once the broker has the offsets.
func (e *Engine) offsetsIn(l *life) {
	s := l.sealed
	for i, tp := range l.inputs() {
		for _, o := range s.Offsets {
			if o.TopicPartition == tp {
				l.done[i] = o.Offset
			}
		}
	}
	b := &statestore.Batch{}
	for _, st := range s.Stores {
		pos := statestore.NoPosition
		if st.Changelog.Topic != "" {
			l.closeHole(st.Store, s.Rewrites)
			pos = l.ends[st.Store]
		}
		b.Stores = append(b.Stores, statestore.StoreBatch{Store: st.Store, Changes: st.Changes, Position: pos})
	}
	if len(b.Stores) == 0 {
		e.committed(l, nil)
		return
	}
	s.phase = awaitStore
	l.ops = append(l.ops, storeOp{batch: b})
	e.do(Apply{Task: l.id, Epoch: l.key, Batch: b})
}

func (e *Engine) committed(l *life, err error) {
	l.sealed = nil
	if err == nil {
		e.leadCommitted(l)
	}
	e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Committed{Err: err}})
}

func (e *Engine) applied(ev Applied) {
	l := e.holder(ev.Task, ev.Epoch)
	if l == nil || len(l.ops) == 0 {
		return
	}
	op := l.ops[0]
	l.ops = slices.Delete(l.ops, 0, 1) // which forgets the batch, too
	if ev.Err == nil {
		l.wrote(op)
	}
	switch {
	case l.state == lifeClosing:
		e.closeStores(l)
	case ev.Err != nil:
		e.writeFailed(l, ev.Err)
	case op.wipe:
		e.partWiped(l, op.part)
	case op.part != nil:
		e.partApplied(l, op.part)
	case l.sealed != nil && l.sealed.phase == awaitStore:
		e.committed(l, nil)
	}
}

// wrote keeps track of the stored positions.
func (l *life) wrote(op storeOp) {
	if op.wipe {
		l.at[op.part.store] = statestore.NoPosition
		return
	}
	for i := range op.batch.Stores {
		if b := &op.batch.Stores[i]; b.Position >= 0 {
			l.at[b.Store] = b.Position
		}
	}
}

// purge deletes what has been read from repartition topics, below what was committed when the time before came: a commit that was given up,
// and made again, may still arrive and take the committed offset back, and who begins there must find its records.
type purge struct {
	at   time.Time
	due  map[task.TopicPartition]int64 // committed by the last time
	told map[task.TopicPartition]int64
}

func (p *purge) init() {
	p.due, p.told = map[task.TopicPartition]int64{}, map[task.TopicPartition]int64{}
}

func (e *Engine) tickPurge() {
	if e.now.Before(e.purge.at) {
		e.wakeAt(e.purge.at)
		return
	}
	e.purge.at = e.now.Add(e.cfg.PurgeEvery)
	e.wakeAt(e.purge.at)
	before := map[task.TopicPartition]int64{}
	for _, l := range e.order {
		for i, in := range l.spec.Inputs {
			tp := task.TopicPartition{Topic: in.Topic, Partition: l.id.Partition}
			if !in.Internal() || e.another(l, i) {
				continue
			}
			if due := e.purge.due[tp]; due > e.purge.told[tp] {
				before[tp], e.purge.told[tp] = due, due
			}
			e.purge.due[tp] = l.done[i]
		}
	}
	if len(before) > 0 {
		e.do(PurgeRecords{Before: before})
	}
}

// topics are all topics whose leaders and counts the application follows.
func (e *Engine) topics() []string {
	var ts []string
	for _, s := range e.cfg.Specs {
		for _, in := range s.Inputs {
			ts = append(ts, in.Topic)
		}
		for _, st := range s.Stores {
			if st.Changelog != "" {
				ts = append(ts, st.Changelog)
			}
		}
	}
	slices.Sort(ts)
	return slices.Compact(ts)
}
