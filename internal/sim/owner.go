package sim

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// taskRun is the goroutine of one life of a task.
type taskRun struct {
	p        *process
	key      lifeKey
	box      lane
	wake     wakeup
	owner    *task.Owner
	inputs   []task.TopicPartition
	view     map[string][]byte // what its counts are: what it began with and what it has sealed since
	counting *counting         // what it has counted
	working  bool
	closed   bool
}

// tellTask puts an event into a task's mailbox. One for a task that has ended is dropped.
func (p *process) tellTask(id task.ID, epoch uint64, ev task.Event) {
	if r := p.tasks[lifeKey{id, epoch}]; r != nil {
		p.w.send(&r.box, p.w.upTo(p.w.mood.hop), p, func() { r.step(ev) })
	}
}

func (p *process) startTask(a engine.StartTask) {
	r := &taskRun{p: p, key: lifeKey{a.Task, a.Epoch}}
	spec := p.spec[a.Task.Subtopology]
	c := task.Config{
		ID: a.Task, Epoch: a.Epoch, Spec: spec, Positions: a.Positions, Committed: a.Committed, Announce: true, StreamTime: a.StreamTime,
		Partitions: func(string) int32 { return p.w.cfg.Parts }, CommitInterval: p.w.mood.commit, Seed: p.w.rng.Uint64(),
	}
	if s := p.stores[lifeKey{a.Task, a.Stores}]; s != nil {
		for i := range spec.Stores {
			c.Stores = append(c.Stores, statestore.Reader(s.Reader(i)))
		}
		p.w.oracle.restored(p, a.Task, s)
		r.view = rows(s.Reader(storeCounts))
		r.counting = newCounting(a.Positions[0], p.w.asideIn(s))
		for offset := range r.counting.loaded {
			if offset >= r.counting.from {
				p.w.saw(RecordAsleep)
			}
		}
	}
	for _, in := range spec.Inputs {
		r.inputs = append(r.inputs, task.TopicPartition{Topic: in.Topic, Partition: a.Task.Partition})
	}
	p.tasks[r.key] = r
	p.w.oracle.running(p, a.Task)
	p.w.send(&r.box, p.w.upTo(p.w.mood.hop), p, func() {
		p.starting = r
		owner, err := task.New(c)
		p.starting = nil
		if err != nil {
			p.w.violated("%s: task %v: %v", p.name, a.Task, err)
			return
		}
		r.owner = owner
		r.step(task.Tick{})
	})
}

func (r *taskRun) step(ev task.Event) {
	if r.closed || r.owner == nil {
		return
	}
	w := r.p.w
	switch ev.(type) {
	case task.Resume:
		w.oracle.running(r.p, r.key.task)
	case task.Lost, task.Close:
		w.oracle.stopped(r.p, r.key.task)
	}
	if _, ok := ev.(task.Work); !ok {
		w.traceTask(r, ev)
	}
	actions := r.owner.Step(w.now.Add(r.p.host.skew), ev)
	if r.p.doomed {
		r.p.host.dies()
		return
	}
	r.carry(actions)
	r.kick()
}

// kick lets the task work if it can. A turn of work blocks what comes behind it.
func (r *taskRun) kick() {
	if r.working || r.closed || !r.owner.Runnable() {
		return
	}
	w := r.p.w
	r.working = true
	w.send(&r.box, 0, r.p, func() {
		r.working = false
		if r.closed || !r.owner.Runnable() {
			return
		}
		took := w.upTo(w.mood.work)
		if w.chance(w.mood.slowWork) {
			took = w.upTo(time.Second)
		}
		r.box.last = later(r.box.last, w.now.Add(took))
		r.step(task.Work{Records: 1 + w.rng.IntN(w.mood.turn)})
	})
}

func (r *taskRun) carry(actions []task.Action) {
	p, id, epoch := r.p, r.key.task, r.key.epoch
	for _, a := range actions {
		p.w.traceTaskAction(r, a)
		switch a := a.(type) {
		case task.Send:
			p.sender.put(engine.EffectsMade{Effects: a.Effects})
		case task.Seal:
			if r.view != nil {
				p.w.oracle.sealed(r, a.Sealed)
			}
			p.tell(engine.TaskSealed{Sealed: a.Sealed})
		case task.Consumed:
			p.fetch.consumed(engine.FetchSource{TopicPartition: r.inputs[a.Input], Task: id, Epoch: epoch, Index: a.Input}, a.Bytes)
		case task.Wake:
			r.wake.move(p.w, a.At.Add(-p.host.skew), p, func() { r.step(task.Tick{}) })
		case task.Noted:
			if a.Kind == task.NoteOutage {
				p.w.saw(BreakerOpened)
			}
		case task.Released:
			if r.owner.State() != task.StateRunning { // else it answers a release that was taken back
				p.w.oracle.stopped(p, id)
			}
			p.tell(engine.TaskReleased{Task: id, Epoch: epoch})
		case task.Closed:
			r.closed = true
			delete(p.tasks, r.key)
			p.tell(engine.TaskClosed{Task: id, Epoch: epoch})
		case task.Failed:
			p.tell(engine.TaskFailed{Task: id, Epoch: epoch, Err: a.Err})
		}
	}
}
