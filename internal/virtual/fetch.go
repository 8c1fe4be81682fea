package virtual

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// fetchers are the fetch loops of a process, one per broker and purpose.
type fetchers struct {
	p     *Process
	loops map[loopKey]*fetchLoop
	src   map[engine.FetchSource]*fetchLoop // who fetches what, for tasks that give room back
}

type loopKey struct {
	purpose engine.Purpose
	broker  int32
}

func (f *fetchers) init(p *Process) {
	*f = fetchers{p: p, loops: map[loopKey]*fetchLoop{}, src: map[engine.FetchSource]*fetchLoop{}}
}

// fetchLoop runs one planner. While a fetch is on the way its goroutine is blocked, and what it is told waits.
type fetchLoop struct {
	f       *fetchers
	key     loopKey
	box     lane
	wake    wakeup
	planner *engine.Planner
	link    *Link
	blocked bool
	waiting []engine.PlannerEvent
}

func (f *fetchers) event(purpose engine.Purpose, broker int32, ev engine.PlannerEvent) {
	key := loopKey{purpose, broker}
	l := f.loops[key]
	if l == nil {
		l = &fetchLoop{f: f, key: key, planner: engine.NewPlanner(f.p.cfg.Planner.For(purpose))}
		f.loops[key] = l
	}
	switch ev := ev.(type) {
	case engine.FetchAdd:
		f.src[ev.Source] = l
	case engine.FetchRemove:
		if f.src[ev.Source] == l {
			delete(f.src, ev.Source)
		}
	}
	l.put(ev)
}

func (f *fetchers) consumed(src engine.FetchSource, bytes int) {
	if l := f.src[src]; l != nil {
		l.put(engine.FetchConsumed{Source: src, Bytes: bytes})
	}
}

func (l *fetchLoop) put(ev engine.PlannerEvent) {
	p := l.f.p
	p.World.send(&l.box, p.hop(), p, func() {
		if l.blocked {
			l.waiting = append(l.waiting, ev)
			return
		}
		l.turn(ev)
	})
}

// turn handles what has come while the loop was blocked, then an event, then fetches if the planner wants to: the order of package shell.
func (l *fetchLoop) turn(ev engine.PlannerEvent) {
	var ask *engine.SendFetch
	for _, ev := range l.waiting {
		ask = l.step(ev, ask)
	}
	ask = l.step(ev, ask)
	l.waiting = l.waiting[:0]
	if ask != nil {
		l.fetch(*ask)
	}
}

func (l *fetchLoop) step(ev engine.PlannerEvent, ask *engine.SendFetch) *engine.SendFetch {
	p := l.f.p
	for _, a := range l.planner.Step(p.World.Now, ev) {
		switch a := a.(type) {
		case engine.SendFetch:
			ask = &a
		case engine.Deliver:
			l.deliver(a)
		case engine.PartLost:
			p.Tell(engine.PartMoved{Lost: a})
		case engine.PartFailed:
			p.Tell(engine.PartStopped{Failed: a})
		case engine.PlannerWake:
			l.wake.set(p.World, a.At, p, func() {
				if !l.blocked {
					l.turn(engine.PlannerTick{})
				} else {
					l.waiting = append(l.waiting, engine.PlannerTick{})
				}
			})
		}
	}
	return ask
}

func (l *fetchLoop) deliver(d engine.Deliver) {
	if l.key.purpose == engine.Restore {
		l.f.p.Tell(engine.Restored{Source: d.Source, Batch: d.Batch})
		return
	}
	l.f.p.tellTask(d.Source.Task, d.Source.Epoch, task.Fetched{Input: d.Source.Index, Batch: d.Batch})
}

func (l *fetchLoop) fetch(a engine.SendFetch) {
	l.blocked = true
	p := l.f.p
	if wait := p.watch.HoldsRead(); wait > 0 && l.key.purpose == engine.Restore {
		p.World.After(wait, p, func() { l.send(a) })
		return
	}
	l.send(a)
}

func (l *fetchLoop) send(a engine.SendFetch) {
	if l.link == nil || l.link.dead {
		l.link = l.f.p.dial(l.key.broker)
	}
	req := modelbroker.FetchRequest{MaxWait: a.MaxWait, MinBytes: 1, MaxBytes: a.MaxBytes}
	for _, part := range a.Parts {
		req.Parts = append(req.Parts, modelbroker.FetchPart{
			TopicPartition: part.TopicPartition, Offset: part.Offset, LeaderEpoch: part.LeaderEpoch, MaxBytes: part.MaxBytes,
		})
	}
	l.link.Call(req, func(r modelbroker.Response, err error) {
		ev := engine.FetchAnswered{Err: err}
		if err == nil {
			for i, part := range r.(modelbroker.FetchResponse).Parts {
				ev.Parts = append(ev.Parts, engine.FetchedPart{
					TopicPartition: part.TopicPartition, Code: part.Code, Batch: part.Batch(req.Parts[i].Offset),
				})
			}
		}
		l.blocked = false
		l.turn(ev)
	})
	l.link.limit(a.MaxWait + 15*time.Second)
}
