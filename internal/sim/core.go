package sim

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
)

// tell puts an event into the mailbox of the core loop.
func (p *process) tell(ev engine.Event) {
	p.w.send(&p.box, p.w.upTo(p.w.mood.hop), p, func() { p.step(ev) })
}

// step is a turn of the core loop.
func (p *process) step(ev engine.Event) {
	p.w.traceEvent(p, ev)
	p.before(ev)
	for _, a := range p.engine.Step(p.w.now, ev) {
		p.w.traceAction(p, a)
		p.carry(a)
		if p.dead {
			return
		}
	}
	p.w.oracle.viewed(p)
}

func (p *process) carry(a engine.Action) {
	switch a := a.(type) {
	case engine.EnsureTopics:
		p.ensure()
	case engine.MemberAction:
		p.w.oracle.leaves(p, a.Action)
		p.w.oracle.joins(p, a.Action)
		p.member.carry(p, a.Action)
	case engine.FetchOffsets:
		p.fetchOffsets(a)
	case engine.CommitOffsets:
		p.commitOffsets(a)
	case engine.ListOffsets:
		p.listOffsets(a)
	case engine.RefreshMetadata:
		p.refresh(a)
	case engine.PurgeRecords:
		p.purge(a)
	case engine.OpenStores:
		p.openStores(a)
	case engine.CloseStores:
		p.w.oracle.closesStore(p, a.Task)
		p.closeStores(a)
	case engine.Apply:
		p.apply(a)
	case engine.Wipe:
		p.w.oracle.wipes(p, a.Task)
		p.wipe(a)
	case engine.FreeReaders:
		p.freeReaders(a)
	case engine.ListStored:
		p.listStored()
	case engine.DropStored:
		p.w.oracle.drops(p, a.Task)
		p.dropStored(a)
	case engine.ProbeDisk:
		p.probeDisk()
	case engine.ReadyStores:
		p.readyStores()
	case engine.Fetch:
		p.fetch.event(a.Purpose, a.Broker, a.Event)
	case engine.StartTask:
		p.w.oracle.starts(p, a)
		p.startTask(a)
	case engine.ToTask:
		p.w.oracle.told(p, a)
		p.tellTask(a.Task, a.Epoch, a.Event)
	case engine.ToSender:
		if t, ok := a.Event.(engine.Tenure); ok {
			p.w.oracle.changes(t.TopicPartition).granted(t)
		}
		p.sender.put(a.Event)
	case engine.Wake:
		p.wake.set(p.w, a.At, p, func() { p.step(engine.Tick{}) })
	case engine.Note:
		p.w.oracle.noticed(p, a.Note)
	case engine.Done:
		p.host.exited(a.Err)
	}
}

// shut asks the application for a clean end.
func (p *process) shut(within time.Duration) { p.tell(engine.Close{Within: within}) }
