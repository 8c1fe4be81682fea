package sim

import (
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// traceEvent keeps what the core loop of a process is told, where no message has said it already.
func (w *world) traceEvent(p *process, ev engine.Event) {
	switch ev := ev.(type) {
	case engine.Start:
		w.note(p, "begins", task.ID{}, 0, 0)
	case engine.Close:
		w.note(p, "is asked to end", task.ID{}, 0, 0)
	case engine.StoresOpened:
		w.note(p, "the store of {t} is open, at {b}", ev.Task, int64(ev.Epoch), first(ev.Positions))
	case engine.StoresClosed:
		w.note(p, "the store of {t} is closed", ev.Task, int64(ev.Epoch), 0)
	case engine.Restored:
		w.note(p, "gets {a} records of the changelog of {t}, up to {b}", ev.Source.Task, int64(len(ev.Batch.Records)), ev.Batch.Next)
	case engine.Applied:
		w.note(p, "the store of {t} is written", ev.Task, int64(ev.Epoch), 0)
	case engine.EffectsDone:
		w.note(p, "all that {t} made is in the logs, up to {b}", ev.Acked.Task, int64(ev.Acked.Epoch), int64(ev.Acked.Seq))
	case engine.TaskFailed:
		w.note(p, "{t} has failed", ev.Task, int64(ev.Epoch), 0)
	case engine.PartMoved:
		w.note(p, "{t} cannot be fetched from there any more, at {a}", ev.Lost.Source.Task, ev.Lost.Offset, int64(ev.Lost.Code))
	case engine.PartStopped:
		w.note(p, "{t} cannot be fetched at {a}", ev.Failed.Source.Task, ev.Failed.Offset, int64(ev.Failed.Code))
	case engine.StoreTrouble:
		w.noteText(p, "the database has trouble", ev.Err.Error(), 0)
	case engine.DiskProbed:
		w.note(p, "finds {a} bytes free", task.ID{}, ev.Free, 0)
	case engine.StoresReady:
		w.note(p, "the database is ready", task.ID{}, 0, 0)
	case engine.TaskSealed:
		w.hidden(p, "sealed", ev.Sealed.Task, int64(ev.Sealed.Seq), ev.Sealed.Offsets[0].Offset)
	default:
		w.hidden(p, "event", task.ID{}, 0, 0)
	}
}

func first(s []int64) int64 {
	if len(s) == 0 {
		return -1
	}
	return s[0]
}

// traceAction keeps what the core loop wants done, where no message will say it.
func (w *world) traceAction(p *process, ac engine.Action) {
	switch ac := ac.(type) {
	case engine.OpenStores:
		w.note(p, "opens the store of {t}", ac.Task, int64(ac.Epoch), 0)
	case engine.CloseStores:
		w.note(p, "closes the store of {t}", ac.Task, int64(ac.Epoch), 0)
	case engine.Apply:
		w.note(p, "writes to the store of {t}, up to {b}", ac.Task, int64(ac.Epoch), ac.Batch.Stores[0].Position)
	case engine.Wipe:
		w.note(p, "empties the store of {t}", ac.Task, int64(ac.Epoch), 0)
	case engine.StartTask:
		w.note(p, "starts {t} at {b}", ac.Task, int64(ac.Epoch), first(ac.Positions))
	case engine.ToTask:
		if what := taskEvent(ac.Event); what != "" {
			w.note(p, what, ac.Task, int64(ac.Epoch), 0)
		}
	case engine.ProbeDisk:
		w.note(p, "looks for room on its disk", task.ID{}, 0, 0)
	case engine.Done:
		w.note(p, "ends", task.ID{}, 0, 0)
	}
}

func taskEvent(ev task.Event) string {
	switch ev.(type) {
	case task.Committed:
		return "tells {t} that it is committed"
	case task.Release:
		return "tells {t} to let go"
	case task.Resume:
		return "tells {t} to go on"
	case task.Lost:
		return "tells {t} that it is lost"
	case task.Close:
		return "tells {t} to end"
	case task.Rewrite:
		return "tells {t} to write rows again"
	}
	return ""
}

func (w *world) traceTask(r *taskRun, ev task.Event) {
	switch ev := ev.(type) {
	case task.Fetched:
		w.note(r.p, "  {t} gets {a} records, up to {b}", r.key.Task, int64(len(ev.Batch.Records)), ev.Batch.Next)
	case task.Committed, task.Release, task.Resume, task.Lost, task.Close, task.Rewrite:
		w.hidden(r.p, taskEvent(ev), r.key.Task, int64(r.key.Epoch), 0)
	}
}

func (w *world) traceTaskAction(r *taskRun, a task.Action) {
	switch a := a.(type) {
	case task.Send:
		w.note(r.p, "  {t} makes {a}, for {b} partitions", r.key.Task, int64(a.Effects.Seq), int64(len(a.Effects.Groups)))
	case task.Seal:
		w.note(r.p, "  {t} seals what it made up to {a}, input offset {b}", r.key.Task, int64(a.Sealed.Seq), a.Sealed.Offsets[0].Offset)
	case task.Released:
		w.note(r.p, "  {t} has let go", r.key.Task, int64(r.key.Epoch), 0)
	case task.Closed:
		w.note(r.p, "  {t} has ended", r.key.Task, int64(r.key.Epoch), 0)
	}
}
