package shell

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// stores are the open stores of this process's tasks. The map belongs to the core loop; what blocks runs in the writer pool, where the
// operations of one task keep their order.
type stores struct {
	r      *Runtime
	opened map[lifeKey]*taskStores
}

// taskStores are the stores of one life. The first operation of the pool sets them; the core loop looks at them once it has been told.
type taskStores struct{ open statestore.TaskStores }

// lifeKey names one life of a task.
type lifeKey struct {
	task  task.ID
	epoch uint64
}

func newStores(r *Runtime) *stores { return &stores{r: r, opened: map[lifeKey]*taskStores{}} }

// open opens the stores. A database that has to note a new store's name waits for the disk.
func (s *stores) open(a engine.OpenStores) {
	ts := &taskStores{}
	s.opened[lifeKey{a.Task, a.Epoch}] = ts
	ev := engine.StoresOpened{Task: a.Task, Epoch: a.Epoch}
	s.write(a.Task, func() (err error) {
		if ts.open, err = s.r.cfg.Backend.Open(a.Task, a.Stores); err != nil {
			ts.open = nil
			return err
		}
		fail.Point("stores.opened")
		for i := range a.Stores {
			ev.Positions = append(ev.Positions, ts.open.Position(i))
			ev.Stale = append(ev.Stale, ts.open.Stale(i))
		}
		return nil
	}, func(err error) {
		ev.Err = err
		s.r.post(ev)
	})
}

// of returns the stores of a task that is open; nil if it has none.
func (s *stores) of(id task.ID, epoch uint64) statestore.TaskStores {
	if ts := s.opened[lifeKey{id, epoch}]; ts != nil {
		return ts.open
	}
	return nil
}

// close closes the stores, behind their opening if that is still under way.
func (s *stores) close(a engine.CloseStores) {
	key := lifeKey{a.Task, a.Epoch}
	ts := s.opened[key]
	delete(s.opened, key)
	if ts == nil {
		s.r.post(engine.StoresClosed{Task: a.Task, Epoch: a.Epoch})
		return
	}
	s.write(a.Task, ts.close, func(err error) {
		fail.Point("stores.closed")
		s.r.post(engine.StoresClosed{Task: a.Task, Epoch: a.Epoch, Err: err})
	})
}

func (ts *taskStores) close() error {
	if ts.open == nil {
		return nil // it did not open
	}
	return ts.open.Close()
}

// freeReaders lets the stores go on without the readers of an owner that has ended.
func (s *stores) freeReaders(a engine.FreeReaders) {
	if ts := s.of(a.Task, a.Epoch); ts != nil {
		ts.ReleaseReaders()
	}
}

// list says what is on disk of tasks that are not open.
func (s *stores) list() {
	if s.r.cfg.Backend == nil {
		s.r.post(engine.StoredKnown{})
		return
	}
	var ev engine.StoredKnown
	s.write(nobody, func() error {
		all, err := s.r.cfg.Backend.Tasks()
		for _, t := range all {
			if !t.Open {
				ev.Tasks = append(ev.Tasks, t)
			}
		}
		return err
	}, func(err error) {
		ev.Err = err
		s.r.post(ev)
	})
}

// drop deletes the state of a task, behind whatever is under way for it.
func (s *stores) drop(a engine.DropStored) {
	s.write(a.Task, func() error { return s.r.cfg.Backend.Drop(a.Task) }, func(err error) {
		s.r.post(engine.StoredDropped{Task: a.Task, Err: err})
	})
}

// bytesOf is how much the rows of a batch take, about.
func bytesOf(b *statestore.Batch) (n int) {
	for i := range b.Stores {
		for j := range b.Stores[i].Changes {
			c := &b.Stores[i].Changes[j]
			n += len(c.Key) + len(c.Value)
		}
	}
	return n
}

// closeWait bounds how long the end of the process waits for a disk that does not answer.
const closeWait = 10 * time.Second

// closeAll closes what an end that was not clean has left open, behind the writes that are on their way. A user call that comes back later
// finds its stores closed.
func (s *stores) closeAll() error {
	done := make(chan error, len(s.opened))
	for key, ts := range s.opened {
		s.write(key.task, ts.close, func(err error) { done <- err })
	}
	limit := time.NewTimer(min(s.r.disk.patience(), s.deadline()))
	defer limit.Stop()
	var errs []error
	for range s.opened {
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-limit.C:
			if !s.r.disk.full() { // what a full disk has not taken is restored
				errs = append(errs, errors.New("close stores: the disk does not answer"))
			}
			return errors.Join(errs...)
		}
	}
	clear(s.opened)
	return errors.Join(errs...)
}

// flushEvery is how often the database is asked whether what nobody writes to any more is due to be flushed.
const flushEvery = 30 * time.Second

// keepFlushed lets the database flush by its age when no commit comes along to do so.
func (s *stores) keepFlushed() {
	aging, ok := s.r.cfg.Backend.(interface{ FlushIfDue() error })
	if !ok {
		return
	}
	s.r.request(func(ctx context.Context) {
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		var busy atomic.Bool // they must not pile up before a disk that hangs
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if busy.Swap(true) {
					continue
				}
				s.write(nobody, aging.FlushIfDue, func(err error) {
					busy.Store(false)
					if err != nil {
						s.r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: "flush", Err: err})
					}
				})
			}
		}
	})
}

// nobody is the key of writes that belong to no task.
var nobody = task.ID{Subtopology: -1, Partition: -1}

func (s *stores) apply(a engine.Apply) {
	ts := s.of(a.Task, a.Epoch)
	write := func() error { return ts.Apply(a.Batch) }
	if a.Bulk {
		a.Batch.Taken = func() { s.r.post(engine.Taken{Task: a.Task, Epoch: a.Epoch}) }
		write = func() error {
			if err := s.r.disk.gate(bytesOf(a.Batch)); err != nil {
				return err
			}
			return ts.Ingest(a.Batch)
		}
	}
	s.write(a.Task, write, func(err error) {
		s.r.post(engine.Applied{Task: a.Task, Epoch: a.Epoch, Err: err})
		fail.Point("applied.told")
	})
}

func (s *stores) wipe(a engine.Wipe) {
	ts := s.of(a.Task, a.Epoch)
	s.write(a.Task, func() error { return ts.Wipe(a.Store) }, func(err error) {
		s.r.post(engine.Applied{Task: a.Task, Epoch: a.Epoch, Err: err})
	})
}

func (s *stores) deadline() time.Duration {
	if s.r.cfg.WriteDeadline <= 0 {
		return time.Minute
	}
	return s.r.cfg.WriteDeadline
}

// write runs f in the writer pool. One that overruns its deadline is reported, and goes on: only its end is an answer.
func (s *stores) write(id task.ID, f func() error, done func(error)) {
	s.r.cfg.Writers.Do(id, s.deadline(), func() error { return guarded("a write of the stores of task "+id.String(), f) }, func(err error) {
		var late *pebblestore.OverrunError
		if errors.As(err, &late) {
			s.r.disk.overrun(err)
			return
		}
		done(s.r.disk.explain(err))
	})
}
