package virtual

import (
	"github.com/understudy-streams/understudy/internal/engine"
)

// Tell puts an event into the mailbox of the core loop.
func (p *Process) Tell(ev engine.Event) {
	p.World.send(&p.box, p.hop(), p, func() { p.step(ev) })
}

// step is a turn of the core loop.
func (p *Process) step(ev engine.Event) {
	p.watch.Event(ev)
	for _, a := range p.Engine.Step(p.World.Now, ev) {
		if !p.watch.Action(a) {
			p.Carry(a)
		}
		if p.Dead {
			return
		}
	}
	p.watch.Stepped()
}

// Carry carries out an action of the core loop.
func (p *Process) Carry(a engine.Action) {
	switch a := a.(type) {
	case engine.EnsureTopics:
		p.ensure()
	case engine.MemberAction:
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
		p.closeStores(a)
	case engine.Apply:
		p.apply(a)
	case engine.Wipe:
		p.wipe(a)
	case engine.FreeReaders:
		p.freeReaders(a)
	case engine.ListStored:
		p.listStored()
	case engine.DropStored:
		p.dropStored(a)
	case engine.ProbeDisk:
		p.probeDisk()
	case engine.ReadyStores:
		p.readyStores()
	case engine.Fetch:
		p.fetch.event(a.Purpose, a.Broker, a.Event)
	case engine.StartTask:
		p.startTask(a)
	case engine.ToTask:
		p.tellTask(a.Task, a.Epoch, a.Event)
	case engine.ToSender:
		p.sender.put(a.Event)
	case engine.Wake:
		p.wake.set(p.World, a.At, p, func() { p.step(engine.Tick{}) })
	case engine.AskLag: // nobody looks at gauges here
	case engine.Recycle:
	case engine.Done:
		p.watch.Exited(a.Err)
	}
}
