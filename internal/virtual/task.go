package virtual

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// Task is the goroutine of one life of a task, and those of its workers.
type Task struct {
	Process *Process
	Key     LifeKey
	Owner   *task.Owner // nil until it is made

	box     lane
	wake    wakeup
	inputs  []task.TopicPartition // those of gaps, which come behind, are of the same partitions
	working bool
	closed  bool
	crew    *Crew
	waiting []*task.Item // for a worker
	busy    int          // workers
	cancels int          // so far
}

// tellTask puts an event into a task's mailbox. One for a task that has ended is dropped.
func (p *Process) tellTask(id task.ID, epoch uint64, ev task.Event) {
	if t := p.Tasks[LifeKey{id, epoch}]; t != nil {
		t.put(ev)
	}
}

func (t *Task) put(ev task.Event) {
	p := t.Process
	p.World.send(&t.box, p.hop(), p, func() { t.step(ev) })
}

// now is the time by the clock of the host.
func (t *Task) now() time.Time { return t.Process.World.Now.Add(t.Process.Host.Skew) }

func (p *Process) startTask(a engine.StartTask) {
	t := &Task{Process: p, Key: LifeKey{a.Task, a.Epoch}}
	spec := a.Spec
	c := task.Config{
		ID: a.Task, Epoch: a.Epoch, Spec: spec, Positions: a.Positions, Committed: a.Committed, Splits: a.Splits, Announce: true, StreamTime: a.StreamTime,
		Refused: p.refused(a.Refused), Workers: true,
	}
	if p.cfg.NewTask != nil {
		c = p.cfg.NewTask(c)
	}
	c.Turn = func(id task.ID, take bool) bool { return p.turn.Ask(p.World.Now, id, take) }
	c.Seed = p.World.Rand.Uint64()
	s := p.Stores[LifeKey{a.Task, a.Stores}]
	if s != nil {
		for i := range spec.Stores {
			c.Stores = append(c.Stores, s.Reader(i))
		}
	}
	for _, in := range spec.Inputs {
		t.inputs = append(t.inputs, task.TopicPartition{Topic: in.Topic, Partition: a.Task.Partition})
	}
	t.crew = NewCrew(c, t.answer)
	p.Tasks[t.Key] = t
	p.watch.TaskStarts(t, a, s)
	p.World.send(&t.box, p.hop(), p, func() { t.begin(c) })
}

// refused has the times of refusals by the clock of the host, which tasks go by and the core loop does not.
func (p *Process) refused(all []task.Refusal) []task.Refusal {
	for i := range all {
		all[i].At += p.Host.Skew.Milliseconds()
	}
	return all
}

// begin makes the owner. A task whose nodes cannot be made waits for its end, as in package shell.
func (t *Task) begin(c task.Config) {
	p := t.Process
	p.starting = t
	owner, err := task.New(c)
	p.starting = nil
	if err != nil {
		p.Tell(engine.TaskFailed{Task: t.Key.Task, Epoch: t.Key.Epoch, Err: err})
		return
	}
	t.Owner = owner
	t.step(task.Tick{})
}

func (t *Task) step(ev task.Event) {
	if t.closed {
		return
	}
	p := t.Process
	p.watch.TaskEvent(t, ev)
	if t.Owner == nil {
		t.idle(ev)
		return
	}
	actions := t.Owner.Step(t.now(), ev)
	p.watch.TaskStepped(t)
	if p.Dead {
		return
	}
	t.carry(actions)
	t.kick()
}

// idle answers for a task that could not be made.
func (t *Task) idle(ev task.Event) {
	switch ev.(type) {
	case task.Close:
		t.carry([]task.Action{task.Closed{}})
	case task.Release:
		t.carry([]task.Action{task.Released{}})
	}
}

// kick lets the task work if it can. A turn of work blocks what comes behind it.
func (t *Task) kick() {
	if t.working || t.closed || !t.Owner.Runnable() {
		return
	}
	p := t.Process
	t.working = true
	p.World.send(&t.box, 0, p, func() {
		t.working = false
		if t.closed || !t.Owner.Runnable() {
			return
		}
		t.box.last = later(t.box.last, p.World.Now.Add(t.took()))
		t.step(task.Work{Records: 1 + p.World.Rand.IntN(p.World.Pace.Turn)})
	})
}

// took is how long a turn of the user's code takes.
func (t *Task) took() time.Duration {
	w := t.Process.World
	took := w.UpTo(w.Pace.Work)
	if w.Chance(w.Pace.SlowWork) {
		took = w.UpTo(time.Second)
	}
	return t.Process.Host.slowed(took)
}

func (t *Task) carry(actions []task.Action) {
	p, id, epoch := t.Process, t.Key.Task, t.Key.Epoch
	for _, a := range actions {
		p.watch.TaskAction(t, a)
		switch a := a.(type) {
		case task.Send:
			p.sender.put(engine.EffectsMade{Effects: a.Effects})
		case task.Seal:
			p.Tell(engine.TaskSealed{Sealed: a.Sealed})
		case task.Consumed:
			p.fetch.consumed(engine.FetchSource{TopicPartition: t.inputs[a.Input%len(t.inputs)], Task: id, Epoch: epoch, Index: a.Input}, a.Bytes)
		case task.Dispatch:
			t.dispatch(a.Item)
		case task.Call:
			t.put(task.Done{Result: t.crew.Call(t.now(), a)})
		case task.Cancel:
			t.cancel()
		case task.Wake:
			t.wake.move(p.World, a.At.Add(-p.Host.Skew), p, func() { t.step(task.Tick{}) })
		case task.Noted:
			p.Tell(engine.TaskNoted{Task: id, Epoch: epoch, Note: a.Note})
		case task.Replayed:
			p.Tell(engine.TaskReplays{Task: id, Epoch: epoch, Replay: a.Replay})
		case task.Released:
			p.Tell(engine.TaskReleased{Task: id, Epoch: epoch, Forgone: a.Forgone})
		case task.Closed:
			t.closed = true
			delete(p.Tasks, t.Key)
			if err := t.crew.Close(); err != nil {
				p.Tell(engine.TaskFailed{Task: id, Epoch: epoch, Err: err})
			}
			p.Tell(engine.TaskClosed{Task: id, Epoch: epoch})
		case task.Failed:
			p.Tell(engine.TaskFailed{Task: id, Epoch: epoch, Err: a.Err})
		}
	}
}
