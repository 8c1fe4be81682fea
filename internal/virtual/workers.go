package virtual

import (
	"github.com/understudy-streams/understudy/task"
)

// dispatch lets a worker run an item as soon as one is free.
func (t *Task) dispatch(it *task.Item) {
	t.waiting = append(t.waiting, it)
	t.attend()
}

// attend lets the workers that are free run what waits. What an item does happens at its beginning, and its result is there at its end: others'
// results are in between.
func (t *Task) attend() {
	p := t.Process
	for ; t.busy < t.crew.most && len(t.waiting) > 0; t.busy++ {
		it := t.waiting[0]
		t.waiting = t.waiting[1:]
		cancels := t.cancels
		p.World.After(p.hop(), p, func() { t.run(it, cancels == t.cancels) })
	}
}

// run lets a worker run an item, unless it was cancelled before.
func (t *Task) run(it *task.Item, wanted bool) {
	p := t.Process
	if t.closed {
		return
	}
	if !wanted {
		t.busy--
		t.finish(t.crew.Refuse(it))
		t.attend()
		return
	}
	p.starting, p.manning = t, true
	r, err := t.crew.Run(t.now(), it)
	p.starting, p.manning = nil, false
	p.watch.TaskStepped(t)
	if p.Dead {
		return
	}
	p.World.After(t.took(), p, func() {
		t.busy--
		t.finish(r, err)
		if !t.closed {
			t.attend()
		}
	})
}

func (t *Task) finish(r *task.Result, err error) {
	if err != nil {
		t.put(task.Unmanned{Err: err})
		return
	}
	t.put(task.Done{Result: r})
}

// cancel gives back what no worker has begun to run: the task is being released.
func (t *Task) cancel() {
	waiting := t.waiting
	t.waiting = nil
	t.cancels++
	for _, it := range waiting {
		t.finish(t.crew.Refuse(it))
	}
}

// answer lets the task answer what a worker reads, at once.
func (t *Task) answer(q task.Read) task.Answer {
	a, rest := AnswerOf(t.Owner.Step(t.now(), q))
	t.carry(rest)
	return a
}
