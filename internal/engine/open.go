package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// openState is what a task that is being opened still waits for.
type openState struct {
	stores  bool             // opened
	offsets []int64          // per input: committed, -1 unknown as yet, noOffset where nothing is committed
	start   []int64          // per input: where to begin
	said    []retry.Metadata // per input: what the last commit says besides its offset
	text    []string         // per input: how it says that
	splits  []retry.Split    // per input, where it has been found how to go on; nil where no input has a gap
	time    int64            // stream time of the last commit
	logs    map[task.TopicPartition]logBounds
	// doubted are the positions up to which logs had been read that seemed to end before that. They are asked once more, and again for as long
	// as reading goes on: whoever reads on has lost nothing.
	doubted map[task.TopicPartition]int64
	// former are the offsets per input that were committed of a topic that is gone, whose name another one has now; -1 where there is none. looks
	// is how many answers about topics there have to be before such a commit is taken for one.
	former []int64
	looks  uint64
}

// logBounds are the log start and the high watermark.
type logBounds struct{ first, end int64 }

const (
	offsetPending = int64(-1)
	offsetNone    = int64(-2)
	offsetAbsent  = int64(-3) // the topic has no such partition
)

// opening gathers the requests of all tasks that are being opened, so that there is one for all of them. An answer counts for lives only
// that had begun when it was asked for: before a task was assigned here, somebody else may have gone on with it.
type opening struct {
	fetch   uint64 // the OffsetFetch on the way
	list    uint64 // the ListOffsets on the way
	fetched uint64 // the youngest epoch that fetch is for
	listed  uint64 // the youngest epoch that list is for
	tries   int
	retryAt time.Time
}

func (e *Engine) beginOpen(l *life) {
	e.await(l)
	if len(l.spec.Stores) == 0 {
		l.open.stores = true
		return
	}
	l.opened = true
	specs := make([]statestore.Spec, len(l.spec.Stores))
	for i, s := range l.spec.Stores {
		specs[i] = s.Spec
		specs[i].Changelog = e.ids[s.Changelog]
	}
	e.do(OpenStores{Task: l.id, Epoch: l.key, Stores: specs})
}

// await begins to wait for all that the life needs in its role, but for its stores if they are open already.
func (e *Engine) await(l *life) {
	l.spec = e.specs[l.id.Subtopology]
	l.done, l.ids = make([]int64, len(l.spec.Inputs)), e.idsOf(l.spec)
	stores := l.at != nil || len(l.spec.Stores) == 0
	l.recoveries, l.lead = nil, noLead
	l.open = &openState{time: -1, stores: stores, logs: map[task.TopicPartition]logBounds{}, doubted: map[task.TopicPartition]int64{}}
	for i, tp := range l.inputs() {
		at := offsetPending
		if !e.exists(tp) {
			at = offsetAbsent
		}
		l.open.offsets, l.open.start = append(l.open.offsets, at), append(l.open.start, at)
		l.open.said = append(l.open.said, retry.Metadata{StreamTime: -1, Suspect: -1})
		l.open.text, l.open.former = append(l.open.text, ""), append(l.open.former, -1)
		l.done[i] = -1
	}
}

func (e *Engine) storesOpened(ev StoresOpened) {
	l := e.holder(ev.Task, ev.Epoch)
	if l == nil {
		return
	}
	if ev.Err != nil {
		closing := l.state == lifeClosing // else the failure closes it
		l.opened = false
		e.storeFailed(l, "open", ev.Err)
		if closing {
			e.gone(l)
		}
		return
	}
	for i, stale := range ev.Stale {
		if stale {
			e.note(Notice{
				Kind: NoticeWiped, Task: l.id, Part: l.changelog(i), Position: ev.Positions[i],
				Text: "the changelog is another topic now: it was deleted and made anew",
			})
		}
	}
	l.at = ev.Positions
	if l.state == lifeClosing {
		return // CloseStores is on its way behind
	}
	l.open.stores = true
}

// flushOpens asks for what the opening tasks lack, and starts or restores those that lack nothing.
func (e *Engine) flushOpens() {
	if e.state != Rebalancing && e.state != Running {
		return
	}
	if !slices.ContainsFunc(e.order, func(l *life) bool { return l.state == lifeOpening }) {
		return
	}
	var fetch, list []task.TopicPartition
	for _, l := range slices.Clone(e.order) {
		if l.state != lifeOpening {
			continue
		}
		offsets, logs := l.unfetched(), e.unlisted(l)
		switch {
		case len(offsets)+len(logs) > 0 || !l.open.stores || !e.bounds(l):
			fetch, list = append(fetch, offsets...), append(list, logs...)
		case l.role == Active:
			e.beginRestore(l)
		default:
			e.beginFollow(l)
		}
	}
	if len(fetch)+len(list) > 0 && e.now.Before(e.opens.retryAt) {
		e.wakeAt(e.opens.retryAt)
		return
	}
	if len(fetch) > 0 && e.opens.fetch == 0 {
		e.opens.fetch, e.opens.fetched = e.request(), e.epochs
		_, _, coordinator := e.member.Membership()
		e.do(FetchOffsets{Request: e.opens.fetch, Coordinator: coordinator, Parts: fetch})
	}
	if len(list) > 0 && e.opens.list == 0 {
		e.opens.list, e.opens.listed = e.request(), e.epochs
		e.do(ListOffsets{Request: e.opens.list, Parts: list})
	}
}

func (l *life) unfetched() []task.TopicPartition {
	if l.role != Active {
		return nil
	}
	var tps []task.TopicPartition
	for i, tp := range l.inputs() {
		if l.open.offsets[i] == offsetPending {
			tps = append(tps, tp)
		}
	}
	return tps
}

// mayHaveDied says that, as far as is known, the last runner of an input has not ended properly.
func (l *life) mayHaveDied(input int) bool {
	return l.open.offsets[input] == offsetPending || l.open.said[input].Running
}

// unlisted are the partitions whose bounds are needed: all changelogs, inputs without a committed offset or with records done above it, and
// those whose main path may have to go on at the log's end. Those are asked for together with the offsets, which may say that nobody has died:
// then the answer is not waited for, and a task that moves runs as soon as it would without a second path.
func (e *Engine) unlisted(l *life) []task.TopicPartition {
	var tps []task.TopicPartition
	need := func(tp task.TopicPartition) {
		if _, has := l.open.logs[tp]; !has {
			tps = append(tps, tp)
		}
	}
	if l.role == Active {
		for i, tp := range l.inputs() {
			if l.open.offsets[i] == offsetAbsent {
				continue
			}
			if l.open.offsets[i] == offsetNone || len(l.open.said[i].Holes) > 0 || e.mayRecover(l, i) && l.mayHaveDied(i) {
				need(tp)
			}
		}
	}
	for i := range l.spec.Stores {
		if l.spec.Stores[i].Changelog != "" {
			need(l.changelog(i))
		}
	}
	return tps
}

func (e *Engine) retryOpens(what string, err error) {
	e.note(Notice{Kind: NoticeRetry, What: what, Err: err})
	e.opens.retryAt = e.now.Add(e.backoff(e.opens.tries))
	e.opens.tries++
	e.wakeAt(e.opens.retryAt)
}

func (e *Engine) offsetsFetched(ev OffsetsFetched) {
	if e.boardRead(ev) {
		return
	}
	if ev.Request != e.opens.fetch {
		return
	}
	e.opens.fetch = 0
	if ev.Err != nil || ev.Code != kcode.None {
		if ev.Code == kcode.GroupAuthorizationFailed {
			e.fail(ev.Code)
			return
		}
		e.retryOpens("committed offsets", firstErr(ev.Err, ev.Code))
		return
	}
	e.opens.tries = 0
	var bad error
	for _, l := range e.order {
		if l.state != lifeOpening || l.role != Active || l.epoch > e.opens.fetched {
			continue
		}
		for i, tp := range l.inputs() {
			c, ok := ev.Offsets[tp]
			if !ok || l.open.offsets[i] != offsetPending {
				continue
			}
			if c.Code != kcode.None {
				bad = c.Code
				continue
			}
			e.committedIs(l, i, c)
		}
	}
	if bad != nil {
		e.retryOpens("committed offsets", bad)
	}
}

func (e *Engine) committedIs(l *life, input int, c CommittedOffset) {
	if _, again := l.restarts[l.spec.Inputs[input].Topic]; again || c.Offset < 0 { // what is committed may be of the topic before
		l.open.offsets[input] = offsetNone
		return
	}
	if c.Metadata == retry.HalfReset {
		e.fail(&HalfResetError{Part: l.inputs()[input]})
		return
	}
	m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
	if m.Topic.Other(l.ids[input]) {
		e.committedOfFormer(l, input, c.Offset)
		return
	}
	l.open.offsets[input], l.open.start[input] = c.Offset, c.Offset
	if err != nil { // it is somebody else's, or damaged: everything from the offset on is processed
		e.note(Notice{Kind: NoticeMetadata, Task: l.id, Part: l.inputs()[input], Position: c.Offset, Err: err})
		return
	}
	l.open.said[input], l.open.text[input] = m, c.Metadata
	l.open.time = max(l.open.time, m.StreamTime)
}

func firstErr(err error, c kcode.Code) error {
	if err != nil {
		return err
	}
	return c.Err()
}

func (e *Engine) offsetsListed(ev OffsetsListed) {
	if e.routes.listed(e, ev) || e.storedListed(ev) {
		return
	}
	if ev.Request != e.opens.list {
		return
	}
	e.opens.list = 0
	for _, l := range slices.Clone(e.order) {
		if l.state != lifeOpening || l.epoch > e.opens.listed {
			continue
		}
		for _, tp := range e.unlisted(l) {
			if covers(ev, tp) {
				l.open.logs[tp] = logBounds{ev.Earliest[tp], ev.End[tp]}
			}
		}
	}
	if ev.Err != nil {
		e.retryOpens("log bounds", ev.Err)
		if errors.Is(ev.Err, kcode.UnknownTopicOrPartition) {
			e.lookForTopics() // nothing of it is fetched as yet, and nobody else would notice soon that it is gone
		}
		return
	}
	e.opens.tries = 0
}

func covers(ev OffsetsListed, tps ...task.TopicPartition) bool {
	for _, tp := range tps {
		_, a := ev.Earliest[tp]
		_, b := ev.End[tp]
		if !a || !b {
			return false
		}
	}
	return true
}

// bounds takes the log bounds in: where inputs without an offset begin, and how much of each changelog there is to restore. It reports false
// if the life cannot go on with them.
func (e *Engine) bounds(l *life) bool {
	if l.role == Active && !e.inputBounds(l) {
		return false
	}
	for i := range l.spec.Stores {
		if l.spec.Stores[i].Changelog != "" && !e.logBounds(l, i) {
			return false
		}
	}
	return true
}

// logBounds takes the bounds of one changelog in. It reports false if they are to be asked for again.
func (e *Engine) logBounds(l *life, store int) bool {
	tp := l.changelog(store)
	log := l.open.logs[tp]
	p := l.partOf(store)
	if p == nil {
		l.restore = append(l.restore, &restorePart{store: store, tp: tp, pos: l.at[store], first: log.first, end: log.end})
		return true
	}
	if p.begun && p.read > log.end && l.open.doubted[tp] != p.read { // read after the bounds were listed, or cut off since
		l.open.doubted[tp] = p.read
		delete(l.open.logs, tp)
		e.opens.retryAt = e.now.Add(e.cfg.Backoff)
		e.wakeAt(e.opens.retryAt)
		return false
	}
	p.first, p.end = log.first, log.end
	return true
}

// boundSaid takes back what a commit says of records beyond the end of their partition: the log was cut off, or made anew, and what comes there
// is not done.
func (e *Engine) boundSaid(l *life, input int) {
	tp := l.inputs()[input]
	if len(l.open.said[input].Holes) == 0 {
		return
	}
	start := l.open.offsets[input]
	m, err := retry.ParseMetadata(l.open.text[input], start, l.open.logs[tp].end)
	if err == nil {
		return
	}
	e.note(Notice{Kind: NoticeMetadata, Task: l.id, Part: tp, Position: start, Err: err})
	m.StreamTime = l.open.said[input].StreamTime
	l.open.said[input] = m
}

func (e *Engine) inputBounds(l *life) bool {
	for i, tp := range l.inputs() {
		if l.open.offsets[i] != offsetNone {
			e.boundSaid(l, i)
			continue
		}
		log := l.open.logs[tp]
		at, again := l.restarts[tp.Topic]
		if again && at >= 0 {
			l.open.start[i] = at
			continue
		}
		reset := e.cfg.NoOffset(tp.Topic)
		if l.spec.Inputs[i].Internal() || tp.Partition >= e.first[tp.Topic] || l.open.former[i] >= 0 || again {
			reset = ResetEarliest // a partition that came while we ran, or after we have read another one, holds nothing that is older than we are
		}
		switch reset {
		case ResetEarliest:
			l.open.start[i] = log.first
		case ResetLatest:
			l.open.start[i] = log.end
		default:
			e.fail(&OffsetOutOfRangeError{Part: tp, Offset: -1, Earliest: log.first, End: log.end})
			return false
		}
	}
	e.split(l)
	return true
}
