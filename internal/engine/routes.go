package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// routes knows from which broker each partition is fetched.
type routes struct {
	all       map[FetchSource]*route
	waiting   bool // there may be one that is fetched from nowhere
	leaders   map[task.TopicPartition]Leader
	missing   map[string]time.Time // topics that do not exist, and since when
	asked     bool
	answers   uint64 // about topics
	notBefore time.Time
	tries     int
	list      uint64 // the ListOffsets on the way for partitions that are out of range
}

// route is one partition that is fetched for one consumer.
type route struct {
	src     FetchSource
	purpose Purpose
	offset  int64
	end     int64 // 0: there is none
	bound   int
	broker  int32 // where it is being fetched, or unknownLeader
	lost    bool  // out of range: waits for the log's bounds
	listing bool
	fresh   bool // fresh metadata is needed before it is fetched again
	doubted bool // so before it is looked for in the log: its topic may be another one by now
}

func (r *routes) init() {
	r.all, r.leaders, r.missing = map[FetchSource]*route{}, map[task.TopicPartition]Leader{}, map[string]time.Time{}
}

// sorted returns the routes in a fixed order.
func (r *routes) sorted() []*route {
	return slices.SortedFunc(maps.Values(r.all), func(a, b *route) int {
		return cmp.Or(a.src.TopicPartition.Compare(b.src.TopicPartition), cmp.Compare(a.src.Epoch, b.src.Epoch),
			cmp.Compare(a.src.Index, b.src.Index), cmp.Compare(a.src.Hole, b.src.Hole))
	})
}

func (e *Engine) addRoute(src FetchSource, p Purpose, offset int64, bound int) {
	e.routes.waiting = true
	e.routes.all[src] = &route{src: src, purpose: p, offset: offset, bound: bound, broker: unknownLeader}
}

func (e *Engine) removeRoute(src FetchSource) {
	r := e.routes.all[src]
	if r == nil {
		return
	}
	delete(e.routes.all, src)
	if r.broker >= 0 {
		e.do(Fetch{Purpose: r.purpose, Broker: r.broker, Event: FetchRemove{Source: src}})
	}
}

// boundRoute changes what may be held of a partition.
func (e *Engine) boundRoute(src FetchSource, bound int) {
	r := e.routes.all[src]
	if r == nil {
		return
	}
	r.bound = bound
	e.tellRoute(r)
}

// endRoute changes up to where a partition is fetched.
func (e *Engine) endRoute(src FetchSource, end int64) {
	r := e.routes.all[src]
	if r == nil || r.end == end {
		return
	}
	r.end = end
	e.tellRoute(r)
}

func (e *Engine) tellRoute(r *route) {
	if r.broker >= 0 {
		e.do(Fetch{Purpose: r.purpose, Broker: r.broker, Event: FetchBound{Source: r.src, Bound: r.bound, End: r.end}})
	}
}

func (e *Engine) dropRoutes(l *life) {
	for i := range l.spec.Inputs {
		e.removeRoute(l.input(i))
	}
	for _, r := range l.recoveries {
		e.removeRoute(l.replaySource(r.replay.Input))
	}
	for i := range l.spec.Stores {
		e.removeRoute(l.logSource(i))
	}
	e.dropHoles(l)
}

// consumed gives room back to whoever fetches the partition.
func (e *Engine) consumed(src FetchSource, p Purpose, bytes int) {
	if r := e.routes.all[src]; r != nil && r.broker >= 0 {
		e.do(Fetch{Purpose: p, Broker: r.broker, Event: FetchConsumed{Source: src, Bytes: bytes}})
	}
}

// flushRoutes starts to fetch what has a leader, and asks for metadata where one is missing.
func (e *Engine) flushRoutes() {
	rs := &e.routes
	if !rs.waiting {
		return
	}
	rs.waiting = false
	ask := false
	for _, r := range rs.sorted() {
		rs.waiting = rs.waiting || r.lost
		ask = ask || r.doubted
		if r.broker >= 0 || r.lost {
			continue
		}
		if leader, ok := rs.leaders[r.src.TopicPartition]; ok && leader.Broker >= 0 && !r.fresh {
			r.broker = leader.Broker
			e.do(Fetch{Purpose: r.purpose, Broker: r.broker, Event: FetchAdd{
				Source: r.src, Offset: r.offset, End: r.end, LeaderEpoch: leader.Epoch, Bound: r.bound,
			}})
			continue
		}
		ask = true
	}
	rs.waiting = rs.waiting || ask
	e.listLost()
	if !ask || rs.asked {
		return
	}
	if e.now.Before(rs.notBefore) {
		e.wakeAt(rs.notBefore)
		return
	}
	e.refresh(false)
}

func (e *Engine) refresh(all bool) {
	e.routes.asked = true
	e.do(RefreshMetadata{Topics: e.topics(), All: all && e.cfg.Matches != nil})
}

func (e *Engine) tickRefresh() {
	if e.now.Before(e.refreshAt) {
		e.wakeAt(e.refreshAt)
		return
	}
	e.refreshAt = e.now.Add(e.cfg.RefreshEvery)
	e.wakeAt(e.refreshAt)
	if !e.routes.asked {
		e.refresh(true)
	}
}

func (e *Engine) metadataKnown(ev MetadataKnown) {
	rs := &e.routes
	rs.asked = false
	rs.notBefore = e.now.Add(e.backoff(rs.tries))
	rs.tries = min(rs.tries+1, 5)
	if ev.Err == nil && rs.led(ev.Leaders) {
		rs.tries, rs.notBefore = 0, e.now.Add(e.cfg.Backoff)
	}
	if ev.Err != nil {
		e.note(Notice{Kind: NoticeRetry, What: "metadata", Err: ev.Err})
		return
	}
	if ev.Leaders != nil {
		rs.leaders = ev.Leaders
	}
	rs.answers++
	for _, r := range rs.all {
		r.fresh, r.doubted = false, false
	}
	e.checkTopics(ev)
}

// led reports whether everything that is fetched has a leader.
func (rs *routes) led(leaders map[task.TopicPartition]Leader) bool {
	for src := range rs.all {
		if l, ok := leaders[src.TopicPartition]; !ok || l.Broker < 0 {
			return false
		}
	}
	return true
}

// checkTopics ends the application if a topic that is named stays away, and plans anew if one has grown, or the topics of a pattern have
// changed.
func (e *Engine) checkTopics(ev MetadataKnown) {
	changed := ev.All && e.appeared(ev.Counts)
	for _, topic := range e.topics() {
		n, ok := ev.Counts[topic]
		if ok && n > 0 {
			delete(e.routes.missing, topic)
			changed = e.replaced(topic, ev.IDs[topic]) || changed
			changed = changed || n > e.counts[topic]
			continue
		}
		since, known := e.routes.missing[topic]
		switch {
		case !known:
			e.routes.missing[topic] = e.now
		case e.matches(topic):
			changed = changed || e.now.Sub(since) >= goneAfter
		case e.now.Sub(since) >= e.cfg.MissingFor:
			e.fail(&MissingTopicError{Topic: topic, For: e.cfg.MissingFor})
			return
		}
	}
	if len(e.routes.missing) > 0 && e.state != Closing {
		e.lookForTopics()
	}
	if changed && !e.ensuring && (e.state == Running || e.state == Rebalancing) {
		e.ensure()
	}
}

// lookForTopics has a look at all topics soon.
func (e *Engine) lookForTopics() {
	e.refreshAt = minTime(e.refreshAt, e.now.Add(min(time.Second, e.cfg.MissingFor)))
	e.wakeAt(e.refreshAt)
}

func (e *Engine) partMoved(ev PartLost) {
	r := e.routes.all[ev.Source]
	if r == nil {
		return
	}
	e.routes.waiting = true
	r.broker, r.offset, r.fresh = unknownLeader, ev.Offset, true
}

func (e *Engine) partStopped(ev PartFailed) {
	r := e.routes.all[ev.Source]
	if r == nil {
		return
	}
	e.routes.waiting = true
	r.broker, r.offset = unknownLeader, ev.Offset
	if ev.Code == kcode.OffsetOutOfRange {
		r.lost, r.doubted = true, r.purpose != Restore && e.ids[ev.Source.Topic] != topicID{}
		return
	}
	delete(e.routes.all, ev.Source)
	why := &FetchError{Part: ev.Source.TopicPartition, Offset: ev.Offset, Code: ev.Code, Err: ev.Err}
	if l := e.holder(ev.Source.Task, ev.Source.Epoch); r.purpose == Restore && l != nil && l.role != Active {
		e.note(Notice{Kind: NoticeRetry, What: "copy of task " + l.id.String(), Err: why})
		e.closeLife(l) // whoever runs the task is none the worse; the copy is made again when the group asks for it
		return
	}
	e.fail(why)
}

// listLost asks for the bounds of the partitions whose offset is out of range.
func (e *Engine) listLost() {
	rs := &e.routes
	if rs.list != 0 {
		return
	}
	var tps []task.TopicPartition
	for _, r := range rs.sorted() {
		if r.lost && !r.doubted {
			r.listing = true
			tps = append(tps, r.src.TopicPartition)
		}
	}
	if len(tps) == 0 {
		return
	}
	if e.now.Before(rs.notBefore) {
		e.wakeAt(rs.notBefore)
		return
	}
	rs.list = e.request()
	e.do(ListOffsets{Request: rs.list, Parts: slices.Compact(tps)})
}

// listed takes the bounds in, if they were asked for here.
func (rs *routes) listed(e *Engine, ev OffsetsListed) bool {
	if ev.Request != rs.list || rs.list == 0 {
		return false
	}
	rs.list = 0
	if ev.Err != nil {
		rs.notBefore = e.now.Add(e.backoff(rs.tries))
		rs.tries = min(rs.tries+1, 5)
		e.note(Notice{Kind: NoticeRetry, What: "log bounds", Err: ev.Err})
	}
	for _, r := range rs.sorted() {
		tp := r.src.TopicPartition
		if !r.lost || !r.listing || !covers(ev, tp) {
			continue
		}
		r.lost, r.listing = false, false
		switch first, end := ev.Earliest[tp], ev.End[tp]; {
		case r.purpose == Restore:
			e.relistRestore(r, first, end)
		case first <= r.offset && r.offset <= end: // whoever was asked did not know of it yet
			rs.notBefore = e.now.Add(e.cfg.Backoff)
		case r.purpose == Recover:
			e.overtaken(r, first, end)
		default:
			e.outOfRange(r, first, end)
		}
	}
	return true
}

func (e *Engine) relistRestore(r *route, first, end int64) {
	delete(e.routes.all, r.src)
	l := e.holder(r.src.Task, r.src.Epoch)
	if l == nil {
		return
	}
	if h := l.holeOf(r.src); h != nil {
		e.holeOutOfRange(l, h, first)
	} else if p := l.part(r.src); p != nil && l.restores() {
		e.restoreOutOfRange(l, p, first, end)
	}
}

// outOfRange applies the policy to an input whose offset is not in the log. It is never silent.
func (e *Engine) outOfRange(r *route, first, end int64) {
	tp := r.src.TopicPartition
	policy := e.cfg.OutOfRange(tp.Topic)
	at := first
	switch policy {
	case ResetEarliest:
	case ResetLatest:
		at = end
	default:
		delete(e.routes.all, r.src)
		e.fail(&OffsetOutOfRangeError{Part: tp, Offset: r.offset, Earliest: first, End: end})
		return
	}
	e.note(Notice{Kind: NoticeReset, Task: r.src.Task, Part: tp, Position: r.offset, End: at})
	l := e.alive(r.src.Task, r.src.Epoch)
	switch {
	case l == nil:
	case at < r.offset: // the log was cut off, and a life only goes on: what is below its position it takes for done
		l.restart(tp.Topic, at)
		delete(e.routes.all, r.src)
		e.renewSoon(l)
		return
	case at > r.offset: // or it would hear of that with the next record, and commit nothing until then
		e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Fetched{Input: r.src.Index, Batch: &task.Batch{From: r.offset, Next: at, HighWatermark: end}}})
	}
	r.offset = at
}
