package virtual

import (
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// Event keeps what the core loop of a process is told, where no message has said it already.
func (t *Trace) Event(s Scene, ev engine.Event) {
	switch ev := ev.(type) {
	case engine.Start:
		t.Note(s, "begins", task.ID{}, 0, 0)
	case engine.Close:
		t.Note(s, "is asked to end", task.ID{}, 0, 0)
	case engine.StoresOpened:
		t.Note(s, "the store of {t} is open, at {b}", ev.Task, int64(ev.Epoch), first(ev.Positions))
	case engine.StoresClosed:
		t.Note(s, "the store of {t} is closed", ev.Task, int64(ev.Epoch), 0)
	case engine.Restored:
		t.Note(s, "gets {a} records of the changelog of {t}, up to {b}", ev.Source.Task, int64(len(ev.Batch.Records)), ev.Batch.Next)
	case engine.Applied:
		t.Note(s, "the store of {t} is written", ev.Task, int64(ev.Epoch), 0)
	case engine.EffectsDone:
		t.Note(s, "all that {t} made is in the logs, up to {b}", ev.Acked.Task, int64(ev.Acked.Epoch), int64(ev.Acked.Seq))
	case engine.TaskFailed:
		t.Note(s, "{t} has failed", ev.Task, int64(ev.Epoch), 0)
	case engine.PartMoved:
		t.Note(s, "{t} cannot be fetched from there any more, at {a}", ev.Lost.Source.Task, ev.Lost.Offset, int64(ev.Lost.Code))
	case engine.PartStopped:
		t.Note(s, "{t} cannot be fetched at {a}", ev.Failed.Source.Task, ev.Failed.Offset, int64(ev.Failed.Code))
	case engine.StoreTrouble:
		t.Text(s, "the database has trouble", ev.Err.Error(), 0)
	case engine.DiskProbed:
		t.Note(s, "finds {a} bytes free", task.ID{}, ev.Free, 0)
	case engine.StoresReady:
		t.Note(s, "the database is ready", task.ID{}, 0, 0)
	case engine.TaskSealed:
		t.Hidden(s, "sealed", ev.Sealed.Task, int64(ev.Sealed.Seq), ev.Sealed.Offsets[0].Offset)
	default:
		t.Hidden(s, "event", task.ID{}, 0, 0)
	}
}

func first(s []int64) int64 {
	if len(s) == 0 {
		return -1
	}
	return s[0]
}

// Action keeps what the core loop wants done, where no message will say it.
func (t *Trace) Action(s Scene, ac engine.Action) {
	switch ac := ac.(type) {
	case engine.OpenStores:
		t.Note(s, "opens the store of {t}", ac.Task, int64(ac.Epoch), 0)
	case engine.CloseStores:
		t.Note(s, "closes the store of {t}", ac.Task, int64(ac.Epoch), 0)
	case engine.Apply:
		t.Note(s, "writes to the store of {t}, up to {b}", ac.Task, int64(ac.Epoch), ac.Batch.Stores[0].Position)
	case engine.Wipe:
		t.Note(s, "empties the store of {t}", ac.Task, int64(ac.Epoch), 0)
	case engine.StartTask:
		t.Note(s, "starts {t} at {b}", ac.Task, int64(ac.Epoch), first(ac.Positions))
	case engine.ToTask:
		if what := taskEvent(ac.Event); what != "" {
			t.Note(s, what, ac.Task, int64(ac.Epoch), 0)
		}
	case engine.ProbeDisk:
		t.Note(s, "looks for room on its disk", task.ID{}, 0, 0)
	case engine.Done:
		t.Note(s, "ends", task.ID{}, 0, 0)
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

// TaskEvent keeps what a task is told.
func (t *Trace) TaskEvent(s Scene, key LifeKey, ev task.Event) {
	switch ev := ev.(type) {
	case task.Fetched:
		t.Note(s, "  {t} gets {a} records, up to {b}", key.Task, int64(len(ev.Batch.Records)), ev.Batch.Next)
	case task.Committed, task.Release, task.Resume, task.Lost, task.Close, task.Rewrite:
		t.Hidden(s, taskEvent(ev), key.Task, int64(key.Epoch), 0)
	}
}

// TaskAction keeps what a task wants done.
func (t *Trace) TaskAction(s Scene, key LifeKey, a task.Action) {
	switch a := a.(type) {
	case task.Send:
		t.Note(s, "  {t} makes {a}, for {b} partitions", key.Task, int64(a.Effects.Seq), int64(len(a.Effects.Groups)))
	case task.Seal:
		t.Note(s, "  {t} seals what it made up to {a}, input offset {b}", key.Task, int64(a.Sealed.Seq), a.Sealed.Offsets[0].Offset)
	case task.Released:
		t.Note(s, "  {t} has let go", key.Task, int64(key.Epoch), 0)
	case task.Closed:
		t.Note(s, "  {t} has ended", key.Task, int64(key.Epoch), 0)
	}
}
