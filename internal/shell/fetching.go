package shell

import (
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/task"
)

// newRuntimeFetchers returns fetch loops that feed the tasks, and the restores of the engine.
func newRuntimeFetchers(r *Runtime) *fetchers {
	return newFetchers(fetchHost{
		client: r.cfg.Client, planner: r.cfg.Planner, request: r.request, answered: r.troubled, deliver: r.deliver,
		lost:   func(a engine.PartLost) { r.post(engine.PartMoved{Lost: a}) },
		failed: func(a engine.PartFailed) { r.post(engine.PartStopped{Failed: a}) },
	}, r.cfg.IdleFor)
}

func (r *Runtime) deliver(p engine.Purpose, d engine.Deliver) {
	if p == engine.Restore {
		fail.Point("restore.fetched")
		r.post(engine.Restored{Source: d.Source, Batch: d.Batch})
		return
	}
	r.tasks.tell(d.Source.Task, d.Source.Epoch, task.Fetched{Input: d.Source.Index, Batch: d.Batch})
	fail.Point("mailbox.put")
}
