package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// planFaults draws the faults of the run. Circumstances that last, such as lost connections, are in the mood.
func (w *world) planFaults() {
	kinds := []func(){
		w.crashProcess, w.crashProcess, w.closeProcess, w.pauseBriefly, w.pauseLong, w.crashBroker, w.moveLeader, w.moveCoordinator, w.compact, w.cutLinks, w.holdRequest,
		w.mark, w.holdOffset, w.fillDisk,
	}
	for range w.mood.faults {
		kind := kinds[w.rng.IntN(len(kinds))]
		w.after(time.Second+w.upTo(faultTime-2*time.Second), nil, kind)
	}
}

func (w *world) fault(format string, args ...any) {
	s := fmt.Sprintf("%9.3fs %s", w.now.Sub(epoch).Seconds(), fmt.Sprintf(format, args...))
	w.faults = append(w.faults, s)
	w.noteText(nil, "fault", s)
}

func (w *world) someHost() *host { return w.hosts[w.rng.IntN(len(w.hosts))] }

func (w *world) crashProcess() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	wiped := w.rng.IntN(3) == 0
	w.fault("crash of %s, disk wiped: %v", h.p.name, wiped)
	h.crash()
	if wiped {
		h.wipe()
	}
	w.after(w.upTo(2*session), nil, h.start)
}

func (w *world) closeProcess() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	w.fault("close of %s", h.p.name)
	h.wanted = false
	h.p.shut(0)
	w.after(time.Second+w.upTo(session), nil, func() { h.comeBack() })
}

// comeBack starts a process again once the one before has ended.
func (h *host) comeBack() {
	if h.w.ending {
		return
	}
	h.wanted = true
	if h.p != nil {
		h.w.after(100*time.Millisecond, nil, h.comeBack)
		return
	}
	h.start()
}

func (w *world) pauseBriefly() { w.pause(w.upTo(4 * time.Second)) }
func (w *world) pauseLong()    { w.pause(session + w.upTo(session)) }

func (w *world) pause(d time.Duration) {
	h := w.someHost()
	if h.p == nil {
		return
	}
	w.fault("pause of %s for %v", h.p.name, d)
	h.paused = later(h.paused, w.now.Add(d))
	h.woke = h.paused
}

func (w *world) crashBroker() {
	node := int32(w.rng.IntN(w.cfg.Brokers))
	if len(w.oracle.down) > 0 {
		return // one at a time
	}
	w.oracle.down[node] = true
	if w.rng.IntN(2) == 0 {
		w.fault("clean stop of broker %d", node)
		w.broker.Shutdown(w.now, node)
	} else {
		w.fault("crash of broker %d", node)
		w.broker.Crash(w.now, node)
	}
	w.collect()
	w.after(w.upTo(4*time.Second), nil, func() { w.restartBroker(node) })
}

func (w *world) restartBroker(node int32) {
	delete(w.oracle.down, node)
	w.broker.Restart(w.now, node)
	w.collect()
}

func (w *world) somePartition() task.TopicPartition {
	topics := topics()
	return task.TopicPartition{Topic: topics[w.rng.IntN(len(topics))], Partition: int32(w.rng.IntN(int(w.cfg.Parts)))}
}

func (w *world) moveLeader() {
	tp := w.somePartition()
	to := w.someNode()
	w.fault("leader of %v moves to %d", tp, to)
	w.broker.MoveLeader(w.now, tp, to)
	w.collect()
}

func (w *world) moveCoordinator() {
	to := w.someNode()
	w.fault("coordinator moves to %d", to)
	w.broker.MoveCoordinator(w.now, groupName, to)
	w.collect()
}

func (w *world) compact() {
	w.fault("compaction")
	w.oracle.compacted = true
	for p := range w.cfg.Parts {
		w.broker.Compact(w.now, task.TopicPartition{Topic: topicCounts, Partition: p}, false)
	}
	w.collect()
}

// mark writes a transaction marker: an offset without a record.
func (w *world) mark() {
	tp := w.somePartition()
	w.fault("transaction marker in %v", tp)
	w.broker.OpenTransaction(w.now, tp)
	w.broker.EndTransaction(w.now, tp)
	w.collect()
}

// holdOffset leaves a committed offset unstable for a while, as somebody's transaction does.
func (w *world) holdOffset() {
	tp := task.TopicPartition{Topic: topicIn, Partition: int32(w.rng.IntN(int(w.cfg.Parts)))}
	w.fault("offset of %v is unstable", tp)
	w.broker.HoldOffset(w.now, groupName, tp, true)
	w.after(w.upTo(4*time.Second), nil, func() { w.broker.HoldOffset(w.now, groupName, tp, false) })
}

func (w *world) cutLinks() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	w.fault("all connections of %s are cut", h.p.name)
	for _, l := range w.linksOf(h.p) {
		l.cut(w.upTo(3 * time.Second))
	}
}

// linksOf returns the open connections of a process in the order in which they were dialled.
func (w *world) linksOf(p *process) []*link {
	var ls []*link
	for _, c := range slices.Sorted(maps.Keys(w.links)) {
		if l := w.links[modelbroker.Conn(c)]; l.p == p {
			ls = append(ls, l)
		}
	}
	return ls
}

// holdRequest lets a process die whose last request to a changelog arrives only after somebody else has its tasks.
func (w *world) holdRequest() { w.someHost().hold = true }

func (h *host) held(l *link, r modelbroker.ProduceRequest) bool {
	isLog := func(b modelbroker.ProduceBatch) bool { return b.Topic == topicCounts }
	if !h.hold || h.w.healed || !slices.ContainsFunc(r.Batches, isLog) {
		return false
	}
	h.hold = false
	h.w.fault("a request of %s is held up, and %s dies", h.p.name, h.p.name)
	late := &link{w: h.w, p: l.p, node: l.node, sure: true, late: true}
	h.w.after(session+h.w.upTo(session), nil, func() { late.call(r, func(modelbroker.Response, error) {}) })
	h.w.after(0, nil, func() {
		h.crash()
		h.w.after(h.w.upTo(2*session), nil, h.start)
	})
	return true
}
