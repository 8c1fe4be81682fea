package sim

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// trace keeps the last things that happened, and a hash over all of them.
type trace struct {
	out  func(string)
	ring [400]entry
	n    int
	hash uint64
}

// entry is one thing that happened; only if somebody looks is it made into text.
type entry struct {
	at   time.Duration
	who  string
	what string
	task task.ID
	a, b int64
	text string
}

func newTrace(out func(string)) trace { return trace{out: out, hash: fnvOffset} }

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (t *trace) add(e entry) {
	t.ring[t.n%len(t.ring)] = e
	t.n++
	t.mix(uint64(e.at))
	t.mixText(e.who)
	t.mixText(e.what)
	t.mix(uint64(uint32(e.task.Subtopology))<<32 | uint64(uint32(e.task.Partition)))
	t.mix(uint64(e.a))
	t.mix(uint64(e.b))
	t.mixText(e.text)
	if t.out != nil {
		t.out(e.String())
	}
}

func (t *trace) mix(v uint64) { t.hash = (t.hash ^ v) * fnvPrime }

func (t *trace) mixText(s string) {
	for i := range len(s) {
		t.hash = (t.hash ^ uint64(s[i])) * fnvPrime
	}
}

func (t *trace) lines() []string {
	var out []string
	for i := max(0, t.n-len(t.ring)); i < t.n; i++ {
		out = append(out, t.ring[i%len(t.ring)].String())
	}
	return out
}

func (e entry) String() string {
	return fmt.Sprintf("%10.4fs %-4s %-26s %v %d %d %s", e.at.Seconds(), e.who, e.what, e.task, e.a, e.b, e.text)
}

func (w *world) note(p *process, what string, id task.ID, a, b int64) {
	w.trace.add(entry{at: w.now.Sub(epoch), who: nameOf(p), what: what, task: id, a: a, b: b})
}

func (w *world) noteText(p *process, what, text string) {
	w.trace.add(entry{at: w.now.Sub(epoch), who: nameOf(p), what: what, text: text})
}

func nameOf(p *process) string {
	if p == nil {
		return "-"
	}
	return p.name
}

func notice(n engine.Notice) string {
	s := n.Text
	switch n.Kind {
	case engine.NoticeState:
		s = n.State.String()
	case engine.NoticeTask:
		s = n.Task.String() + " " + n.Text
	case engine.NoticeAssigned:
		s = fmt.Sprintf("generation %d: %v %s", n.Generation, n.Tasks, n.Text)
	case engine.NoticeForeignWriter, engine.NoticeReset, engine.NoticeRestoreBegin, engine.NoticeRestoreEnd, engine.NoticeWiped:
		s = fmt.Sprintf("%v %d..%d %s", n.Part, n.Position, n.End, n.Text)
	}
	if n.Err != nil {
		s += " " + n.What + " " + n.Err.Error()
	}
	return s
}

func (w *world) traceEvent(p *process, ev engine.Event) {
	what, id, a, b := eventOf(ev)
	w.note(p, what, id, a, b)
}

func eventOf(ev engine.Event) (what string, id task.ID, a, b int64) {
	switch ev := ev.(type) {
	case engine.Start:
		what = "> start"
	case engine.Close:
		what = "> close"
	case engine.Tick:
		what = "> tick"
	case engine.TopicsReady:
		what = "> topics-ready"
	case engine.Member:
		what, a, b = memberEvent(ev.Event)
	case engine.OffsetsFetched:
		what, a, b = "> offsets-fetched", int64(ev.Request), int64(ev.Code)
	case engine.StoresOpened:
		what, id, a, b = "> stores-opened", ev.Task, int64(ev.Epoch), first(ev.Positions)
	case engine.StoresClosed:
		what, id, a = "> stores-closed", ev.Task, int64(ev.Epoch)
	case engine.OffsetsListed:
		what, a = "> offsets-listed", int64(ev.Request)
	case engine.Restored:
		what, id, a, b = "> restored", ev.Source.Task, int64(len(ev.Batch.Records)), ev.Batch.Next
	case engine.Applied:
		what, id, a = "> applied", ev.Task, int64(ev.Epoch)
	case engine.EffectsDone:
		what, id, a, b = "> effects-done", ev.Acked.Task, int64(ev.Acked.Epoch), int64(ev.Acked.Seq)
	case engine.TaskSealed:
		what, id, a, b = "> task-sealed", ev.Sealed.Task, int64(ev.Sealed.Seq), ev.Sealed.Offsets[0].Offset
	case engine.TaskReleased:
		what, id, a = "> task-released", ev.Task, int64(ev.Epoch)
	case engine.TaskClosed:
		what, id, a = "> task-closed", ev.Task, int64(ev.Epoch)
	case engine.TaskFailed:
		what, id, a = "> task-failed", ev.Task, int64(ev.Epoch)
	case engine.OffsetsCommitted:
		what, a, b = "> offsets-committed", int64(ev.Request), int64(len(ev.Codes))
	case engine.PartMoved:
		what, id, a, b = "> part-moved", ev.Lost.Source.Task, ev.Lost.Offset, int64(ev.Lost.Code)
	case engine.PartStopped:
		what, id, a, b = "> part-stopped", ev.Failed.Source.Task, ev.Failed.Offset, int64(ev.Failed.Code)
	case engine.MetadataKnown:
		what = "> metadata"
	case engine.StoreTrouble:
		what = "> store-trouble"
	case engine.DiskProbed:
		what, a = "> disk-probed", ev.Free
	case engine.StoresReady:
		what = "> stores-ready"
	}
	return what, id, a, b
}

func memberEvent(ev group.Event) (what string, a, b int64) {
	switch ev := ev.(type) {
	case group.CoordinatorFound:
		what, a, b = "> coordinator-found", int64(ev.Req), int64(ev.Code)
	case group.JoinDone:
		what, a, b = "> join-done", int64(ev.Generation), int64(ev.Code)
	case group.SyncDone:
		what, a, b = "> sync-done", int64(ev.Req), int64(ev.Code)
	case group.HeartbeatDone:
		what, a, b = "> heartbeat-done", int64(ev.Req), int64(ev.Code)
	case group.LeaveDone:
		what, a, b = "> leave-done", int64(ev.Req), int64(ev.Code)
	}
	return what, a, b
}

func first(s []int64) int64 {
	if len(s) == 0 {
		return -1
	}
	return s[0]
}

func (w *world) traceAction(p *process, ac engine.Action) {
	what, id, a, b := "", task.ID{}, int64(0), int64(0)
	switch ac := ac.(type) {
	case engine.EnsureTopics:
		what = "  ensure-topics"
	case engine.MemberAction:
		what, a = memberAction(ac.Action)
	case engine.FetchOffsets:
		what, a, b = "  fetch-offsets", int64(ac.Request), int64(len(ac.Parts))
	case engine.CommitOffsets:
		what, a, b = "  commit-offsets", int64(ac.Request), int64(ac.Generation)
	case engine.ListOffsets:
		what, a, b = "  list-offsets", int64(ac.Request), int64(len(ac.Parts))
	case engine.PurgeRecords:
		what, a = "  purge", int64(len(ac.Before))
	case engine.OpenStores:
		what, id, a = "  open-stores", ac.Task, int64(ac.Epoch)
	case engine.CloseStores:
		what, id, a = "  close-stores", ac.Task, int64(ac.Epoch)
	case engine.Apply:
		what, id, a, b = "  apply", ac.Task, int64(ac.Epoch), ac.Batch.Stores[0].Position
	case engine.Wipe:
		what, id, a = "  wipe", ac.Task, int64(ac.Epoch)
	case engine.StartTask:
		what, id, a, b = "  start-task", ac.Task, int64(ac.Epoch), first(ac.Positions)
	case engine.ToTask:
		what, id, a = taskEvent(ac.Event), ac.Task, int64(ac.Epoch)
	case engine.ProbeDisk:
		what = "  probe-disk"
	case engine.ReadyStores:
		what = "  ready-stores"
	case engine.Done:
		what = "  done"
	default:
		return
	}
	w.note(p, what, id, a, b)
}

func memberAction(a group.Action) (string, int64) {
	switch a := a.(type) {
	case group.FindCoordinator:
		return "  find-coordinator", int64(a.Req)
	case group.SendJoin:
		return "  send-join", int64(a.Req)
	case group.SendSync:
		return "  send-sync", int64(a.Generation)
	case group.SendHeartbeat:
		return "  send-heartbeat", int64(a.Generation)
	case group.SendLeave:
		return "  send-leave", int64(a.Req)
	case group.Disconnect:
		return "  disconnect", 0
	}
	return "  member", 0
}

func taskEvent(ev task.Event) string {
	switch ev.(type) {
	case task.Committed:
		return "  task: committed"
	case task.Release:
		return "  task: release"
	case task.Resume:
		return "  task: resume"
	case task.Lost:
		return "  task: lost"
	case task.Close:
		return "  task: close"
	case task.Rewrite:
		return "  task: rewrite"
	}
	return "  task"
}

func (w *world) traceTask(r *taskRun, ev task.Event) {
	switch ev := ev.(type) {
	case task.Fetched:
		w.note(r.p, "task > fetched", r.key.task, int64(len(ev.Batch.Records)), ev.Batch.Next)
	case task.Committed, task.Release, task.Resume, task.Lost, task.Close, task.Rewrite:
		w.note(r.p, "task >"+taskEvent(ev)[7:], r.key.task, int64(r.key.epoch), 0)
	}
}

func (w *world) traceTaskAction(r *taskRun, a task.Action) {
	switch a := a.(type) {
	case task.Send:
		w.note(r.p, "task   send", r.key.task, int64(a.Effects.Seq), int64(len(a.Effects.Groups)))
	case task.Seal:
		w.note(r.p, "task   seal", r.key.task, int64(a.Sealed.Seq), a.Sealed.Offsets[0].Offset)
	case task.Released:
		w.note(r.p, "task   released", r.key.task, int64(r.key.epoch), 0)
	case task.Closed:
		w.note(r.p, "task   closed", r.key.task, int64(r.key.epoch), 0)
	}
}
