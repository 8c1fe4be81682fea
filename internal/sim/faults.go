package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

// planFaults draws the faults of the run. Circumstances that last, such as lost connections, are in the mood.
func (w *world) planFaults() {
	if w.planned() {
		return
	}
	kinds := []func(){
		w.crashProcess, w.crashProcess, w.closeProcess, w.pauseBriefly, w.pauseLong, w.crashBroker, w.moveLeader, w.moveCoordinator, w.compact, w.cutLinks, w.holdRequest,
		w.mark, w.holdOffset, w.truncate, w.partition, w.partition, w.failWrites, w.jumpClock, w.evict, w.fillDisk,
	}
	for range w.mood.faults {
		kind := kinds[w.Rand.IntN(len(kinds))]
		w.After(time.Second+w.UpTo(faultTime-2*time.Second), nil, kind)
	}
	for range w.mood.changes {
		change := plans[w.Rand.IntN(len(plans))]
		w.After(2*time.Second+w.UpTo(faultTime-6*time.Second), nil, func() { w.play(change) })
	}
}

func (w *world) fault(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.faults = append(w.faults, fmt.Sprintf("%10.4fs  %s", w.Now.Sub(epoch).Seconds(), s))
	w.noteText(nil, "fault", s, ^parts(0))
}

// someHost is a machine of the group.
func (w *world) someHost() *host {
	var in []*host
	for _, h := range w.hosts {
		if h.p != nil || h.belongs() || h.started > 0 && !h.retired {
			in = append(in, h)
		}
	}
	return in[w.Rand.IntN(len(in))]
}

func (w *world) crashProcess() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	wiped := w.Rand.IntN(3) == 0
	w.fault("crash of %s, disk wiped: %v", h.p.name, wiped)
	h.crash()
	if wiped {
		w.saw(CrashedWiped)
		h.wipe()
	} else {
		w.saw(Crashed)
	}
	w.After(w.UpTo(2*session), nil, h.start)
}

func (w *world) closeProcess() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	h.wanted, h.wipes = false, w.Rand.IntN(3) == 0
	w.fault("close of %s, disk wiped: %v", h.p.name, h.wipes)
	h.p.shut(0)
	w.After(time.Second+w.UpTo(session), nil, func() { h.comeBack() })
}

// comeBack starts a process again once the one before has ended.
func (h *host) comeBack() {
	if h.w.ending || h.retired {
		return
	}
	if h.p != nil {
		if !h.wanted { // it has not ended yet
			h.w.After(100*time.Millisecond, nil, h.comeBack)
		}
		return
	}
	h.wanted, h.wipes = true, false
	h.start()
}

func (w *world) pauseBriefly() { w.pause(w.UpTo(4 * time.Second)) }
func (w *world) pauseLong()    { w.pause(session + w.UpTo(session)) }

func (w *world) pause(d time.Duration) {
	h := w.someHost()
	if h.p == nil {
		return
	}
	w.fault("pause of %s for %v", h.p.name, d)
	if d < session {
		w.saw(Paused)
	}
	if w.Rand.IntN(2) == 0 {
		h.setClock(d) // its clock stood still, and is put right when it wakes
	}
	h.Paused = later(h.Paused, w.Now.Add(d))
	h.woke = h.Paused
}

func (w *world) crashBroker() {
	node := int32(w.Rand.IntN(w.cfg.Brokers))
	if len(w.Down) > 0 {
		return // one at a time
	}
	w.Down[node] = true
	if w.Rand.IntN(2) == 0 {
		w.fault("clean stop of broker %d", node)
		w.saw(BrokerStopped)
		w.Broker.Shutdown(w.Now, node)
	} else {
		w.fault("crash of broker %d", node)
		w.saw(BrokerCrashed)
		if w.Broker.Group(groupName).Coordinator == node {
			w.forgetsRound()
		}
		w.Broker.Crash(w.Now, node)
	}
	w.Collect()
	w.After(w.UpTo(4*time.Second), nil, func() { w.restartBroker(node) })
}

func (w *world) restartBroker(node int32) {
	delete(w.Down, node)
	w.Broker.Restart(w.Now, node)
	w.Collect()
}

func (w *world) somePartition() task.TopicPartition {
	topics := topics()
	return task.TopicPartition{Topic: topics[w.Rand.IntN(len(topics))], Partition: int32(w.Rand.IntN(int(w.cfg.Parts)))}
}

func (w *world) moveLeader() {
	tp := w.somePartition()
	to := w.SomeNode()
	w.fault("leader of %v moves to %d", tp, to)
	w.Broker.MoveLeader(w.Now, tp, to)
	w.Collect()
}

func (w *world) moveCoordinator() {
	to := w.SomeNode()
	w.fault("coordinator moves to %d", to)
	w.forgetsRound()
	w.Broker.MoveCoordinator(w.Now, groupName, to)
	w.Collect()
}

func (w *world) compact() {
	w.fault("compaction")
	for p := range w.cfg.Parts {
		w.compactLog(counts(p))
		w.compactLog(parkedAt(p))
	}
	w.Collect()
}

// compactLog compacts a changelog and returns where its first record is now.
func (w *world) compactLog(tp task.TopicPartition) int64 {
	before, after, first := 0, 0, int64(-1)
	w.Broker.Tail(tp, 0, func(*task.Record) { before++ })
	w.Broker.Compact(w.Now, tp, false)
	end := w.Broker.Tail(tp, 0, func(r *task.Record) {
		if after++; first < 0 {
			first = r.Offset
		}
	})
	if after < before {
		w.saw(Compacted)
		w.oracle.compacted = true
	}
	if first < 0 {
		return end
	}
	return first
}

// truncate compacts a changelog and then cuts off its beginning, in which nothing is left.
func (w *world) truncate() {
	tp := counts(int32(w.Rand.IntN(int(w.cfg.Parts))))
	if w.failing.aside() && w.Rand.IntN(2) == 0 {
		tp.Topic = topicParked
	}
	first := w.compactLog(tp)
	w.fault("%v is cut off before %d", tp, first)
	w.oracle.cut = true
	if first > 0 {
		w.saw(Truncated)
	}
	w.Broker.Trim(w.Now, tp, first)
	w.Collect()
}

// partition makes a host deaf, or dumb, or both: what is on the way arrives when the network heals.
func (w *world) partition() {
	h, d := w.someHost(), w.UpTo(2*session)
	way := 1 + w.Rand.IntN(3)
	if way&1 != 0 {
		h.CutOut = later(h.CutOut, w.Now.Add(d))
	}
	if way&2 != 0 {
		h.CutIn = later(h.CutIn, w.Now.Add(d))
	}
	w.fault("network of %s is cut for %v, outgoing: %v, incoming: %v", h.name(), d, way&1 != 0, way&2 != 0)
}

// failWrites lets the next writes to a disk fail, which ends the process.
func (w *world) failWrites() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	h.fails = 1 + w.Rand.IntN(2)
	w.fault("the next %d writes of %s fail", h.fails, h.p.name)
}

func (w *world) jumpClock() {
	d := w.UpTo(time.Hour)
	if w.Rand.IntN(2) == 0 {
		d = -d
	}
	h := w.someHost()
	w.fault("clock of %s jumps by %v", h.name(), d)
	h.setClock(d)
}

// setClock moves the wall clock of a host, which its tasks measure with. Leases have clocks of their own.
func (h *host) setClock(by time.Duration) {
	h.Skew += by
	if h.p != nil {
		h.p.jumped = true
	}
	if h.p == nil || len(h.p.Tasks) == 0 {
		return
	}
	if by > 0 {
		h.w.saw(ClockForward)
	} else {
		h.w.saw(ClockBack)
	}
}

// evict removes a member as an operator can: it learns of that with its next heartbeat, while its tasks are given away at once.
func (w *world) evict() {
	g := w.Broker.Group(groupName)
	if len(g.Members) == 0 {
		return
	}
	id := g.Members[w.Rand.IntN(len(g.Members))].ID
	p := w.oracle.members[id]
	admin, err := w.Broker.Dial(g.Coordinator)
	if p == nil || p.Dead || err != nil {
		return
	}
	w.fault("an operator removes %s from the group", p.name)
	w.Broker.Receive(w.Now, admin, w.NextID(), modelbroker.LeaveGroupRequest{Group: groupName, MemberIDs: []string{id}})
	w.Collect()
	w.Broker.Hangup(admin)
	if !slices.ContainsFunc(w.Broker.Group(groupName).Members, func(m modelbroker.MemberView) bool { return m.ID == id }) {
		w.saw(Evicted)
		p.evicted, p.evictedAt = w.Now.Add(session), g.Generation
	}
}

// forgetsRound is called when the coordinator is about to forget a round that is under way.
func (w *world) forgetsRound() {
	if s := w.Broker.Group(groupName).State; s == modelbroker.PreparingRebalance || s == modelbroker.CompletingRebalance {
		w.saw(RoundForgotten)
	}
}

// mark writes a transaction marker: an offset without a record.
func (w *world) mark() {
	tp := w.somePartition()
	w.fault("transaction marker in %v", tp)
	w.saw(Marker)
	w.Broker.OpenTransaction(w.Now, tp)
	w.Broker.EndTransaction(w.Now, tp)
	w.Collect()
}

// holdOffset leaves a committed offset unstable for a while, as somebody's transaction does.
func (w *world) holdOffset() {
	tp := task.TopicPartition{Topic: topicIn, Partition: int32(w.Rand.IntN(int(w.cfg.Parts)))}
	w.fault("offset of %v is unstable", tp)
	w.Broker.HoldOffset(w.Now, groupName, tp, true)
	w.After(w.UpTo(4*time.Second), nil, func() { w.Broker.HoldOffset(w.Now, groupName, tp, false) })
}

func (w *world) cutLinks() {
	h := w.someHost()
	if h.p == nil {
		return
	}
	w.fault("all connections of %s are cut", h.p.name)
	w.saw(CutLinks)
	for _, l := range w.LinksOf(h.p.Process) {
		l.Cut(w.UpTo(3 * time.Second))
	}
}

// holdRequest lets a process die whose last request to a changelog arrives only after somebody else has its tasks.
func (w *world) holdRequest() { w.someHost().hold = true }

func (h *host) held(l *virtual.Link, r modelbroker.ProduceRequest) bool {
	isLog := func(b modelbroker.ProduceBatch) bool { return isLog(b.Topic) }
	if !h.hold || h.w.healed || !slices.ContainsFunc(r.Batches, isLog) {
		return false
	}
	h.hold = false
	h.w.fault("a request of %s is held up, and %s dies", h.p.name, h.p.name)
	late := &virtual.Link{World: h.w.World, Process: l.Process, Node: l.Node, Sure: true, Late: true}
	h.w.After(session+h.w.UpTo(session), nil, func() { late.Call(r, func(modelbroker.Response, error) {}) })
	h.w.After(0, nil, func() {
		h.crash()
		h.w.After(h.w.UpTo(2*session), nil, h.start)
	})
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
