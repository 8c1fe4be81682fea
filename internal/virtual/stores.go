package virtual

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

func (p *Process) openStores(a engine.OpenStores) {
	if err := p.watch.Refuses(); err != nil {
		p.Tell(engine.StoresOpened{Task: a.Task, Epoch: a.Epoch, Err: err})
		return
	}
	ts, err := p.Host.Disk.Open(a.Task, a.Stores)
	ev := engine.StoresOpened{Task: a.Task, Epoch: a.Epoch, Err: err}
	if err == nil {
		p.Stores[LifeKey{a.Task, a.Epoch}] = ts
		p.watch.StoresOpened(a)
		for i := range a.Stores {
			ev.Positions = append(ev.Positions, ts.Position(i))
		}
	}
	p.Tell(ev)
}

func (p *Process) closeStores(a engine.CloseStores) {
	key := LifeKey{a.Task, a.Epoch}
	s := p.Stores[key]
	delete(p.Stores, key)
	if s == nil {
		p.Tell(engine.StoresClosed{Task: a.Task, Epoch: a.Epoch})
		return
	}
	p.write(a.Task, func() { p.Tell(engine.StoresClosed{Task: a.Task, Epoch: a.Epoch, Err: s.Close()}) })
}

func (p *Process) apply(a engine.Apply) {
	s := p.Stores[LifeKey{a.Task, a.Epoch}]
	p.write(a.Task, func() {
		err := p.watch.Refuses()
		switch {
		case err != nil:
		case a.Bulk:
			err = s.Ingest(a.Batch)
		default:
			err = s.Apply(a.Batch)
		}
		if err == nil {
			p.watch.Applied(a, s)
		}
		p.Tell(engine.Applied{Task: a.Task, Epoch: a.Epoch, Err: err})
	})
}

func (p *Process) wipe(a engine.Wipe) {
	s := p.Stores[LifeKey{a.Task, a.Epoch}]
	p.write(a.Task, func() {
		err := p.watch.Refuses()
		if err == nil {
			err = s.Wipe(a.Store)
		}
		p.Tell(engine.Applied{Task: a.Task, Epoch: a.Epoch, Err: err})
	})
}

func (p *Process) freeReaders(a engine.FreeReaders) {
	if s := p.Stores[LifeKey{a.Task, a.Epoch}]; s != nil {
		s.ReleaseReaders()
	}
}

// nobody is the key of what concerns no task.
var nobody = task.ID{Subtopology: -1, Partition: -1}

func (p *Process) listStored() {
	p.write(nobody, func() {
		all, err := p.Host.Disk.Tasks()
		ev := engine.StoredKnown{Err: err}
		for _, t := range all {
			if !t.Open {
				ev.Tasks = append(ev.Tasks, t)
			}
		}
		p.Tell(ev)
	})
}

func (p *Process) dropStored(a engine.DropStored) {
	p.write(a.Task, func() {
		err := p.watch.Refuses()
		if err == nil {
			err = p.Host.Disk.Drop(a.Task)
		}
		p.Tell(engine.StoredDropped{Task: a.Task, Err: err})
	})
}

// write does something to the stores of a task in the writer pool, after what was asked for before.
func (p *Process) write(id task.ID, f func()) {
	l := p.writes[id]
	if l == nil {
		l = &lane{}
		p.writes[id] = l
	}
	w := p.World
	d := w.UpTo(w.Pace.Write)
	if w.Chance(w.Pace.SlowWrite) {
		d = w.UpTo(2 * time.Second)
		p.watch.SlowWrite(d)
	}
	d += p.Host.WriteDelay
	if stuck := p.Host.Stuck.Sub(w.Now); stuck > 0 {
		d += stuck
	}
	w.send(l, d, p, func() { p.watch.OnDisk(id, f) })
}

func (p *Process) probeDisk() {
	p.World.After(p.World.UpTo(p.World.Pace.Write), p, func() {
		ev := engine.DiskProbed{Free: 1 << 30, Total: 1 << 40}
		if err := p.watch.NoRoom(); err != nil {
			ev.Free, ev.Err = 0, err
		}
		p.Tell(ev)
	})
}

func (p *Process) readyStores() {
	p.World.After(p.World.UpTo(p.World.Pace.Write), p, func() { p.Tell(engine.StoresReady{Err: p.watch.NoRoom()}) })
}
