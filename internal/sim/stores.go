package sim

import (
	"errors"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// specs are the stores of a task of subtopology 1.
func (w *world) specs() (all []statestore.Spec) {
	for _, s := range stores(&w.failing) {
		all = append(all, s.Spec)
	}
	return all
}

// openStores are the stores of one life of a task.
type openStores struct{ statestore.TaskStores }

func (p *process) openStores(a engine.OpenStores) {
	if err := p.refused(); err != nil {
		p.tell(engine.StoresOpened{Task: a.Task, Epoch: a.Epoch, Err: err})
		return
	}
	ts, err := p.host.disk.Open(a.Task, a.Stores)
	ev := engine.StoresOpened{Task: a.Task, Epoch: a.Epoch, Err: err}
	if err == nil {
		p.stores[lifeKey{a.Task, a.Epoch}] = &openStores{ts}
		p.opened[a.Task] = a.Epoch
		for i := range a.Stores {
			ev.Positions = append(ev.Positions, ts.Position(i))
		}
	}
	p.tell(ev)
}

func (p *process) closeStores(a engine.CloseStores) {
	key := lifeKey{a.Task, a.Epoch}
	s := p.stores[key]
	delete(p.stores, key)
	if s == nil {
		p.tell(engine.StoresClosed{Task: a.Task, Epoch: a.Epoch})
		return
	}
	p.write(a.Task, func() { p.tell(engine.StoresClosed{Task: a.Task, Epoch: a.Epoch, Err: s.Close()}) })
}

func (p *process) apply(a engine.Apply) {
	s := p.stores[lifeKey{a.Task, a.Epoch}]
	p.write(a.Task, func() {
		err := p.refused()
		switch {
		case err != nil:
		case a.Bulk:
			err = s.Ingest(a.Batch)
		default:
			err = s.Apply(a.Batch)
		}
		if err == nil {
			p.host.wrote()
			p.w.oracle.applied(p, a, s)
		}
		p.tell(engine.Applied{Task: a.Task, Epoch: a.Epoch, Err: err})
	})
}

func (p *process) wipe(a engine.Wipe) {
	s := p.stores[lifeKey{a.Task, a.Epoch}]
	p.write(a.Task, func() {
		err := p.refused()
		if err == nil {
			err = s.Wipe(a.Store)
		}
		p.tell(engine.Applied{Task: a.Task, Epoch: a.Epoch, Err: err})
	})
}

func (p *process) freeReaders(a engine.FreeReaders) {
	if s := p.stores[lifeKey{a.Task, a.Epoch}]; s != nil {
		s.ReleaseReaders()
	}
}

// nobody is the key of what concerns no task.
var nobody = task.ID{Subtopology: -1, Partition: -1}

func (p *process) listStored() {
	p.write(nobody, func() {
		all, err := p.host.disk.Tasks()
		ev := engine.StoredKnown{Err: err}
		for _, t := range all {
			if !t.Open {
				ev.Tasks = append(ev.Tasks, t)
			}
		}
		p.tell(ev)
	})
}

func (p *process) dropStored(a engine.DropStored) {
	p.write(a.Task, func() {
		err := p.refused()
		if err == nil {
			err = p.host.disk.Drop(a.Task)
		}
		p.tell(engine.StoredDropped{Task: a.Task, Err: err})
	})
}

var errDisk = errors.New("input/output error")

// write does something to the stores of a task in the writer pool, after what was asked for before.
func (p *process) write(id task.ID, f func()) {
	l := p.writes[id]
	if l == nil {
		l = &lane{}
		p.writes[id] = l
	}
	d := p.w.upTo(p.w.mood.write)
	if p.w.chance(p.w.mood.slowWrite) {
		d = p.w.upTo(2 * time.Second)
		if d > 500*time.Millisecond {
			p.w.saw(SlowWrite)
		}
	}
	p.w.send(l, d, p, func() { p.onDisk(id, f) })
}
