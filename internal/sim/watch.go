package sim

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// What a process does is traced, and held against what must hold, at the moment at which it does it.

// taskRun is what there is to know of one life of a task.
type taskRun struct {
	*virtual.Task
	p        *process
	key      virtual.LifeKey
	view     map[string][]byte // what its counts are: what it began with and what it has sealed since
	counting *counting         // what it has counted
	paths    *paths
}

// of is the process that the machines belong to, nil for those of nobody.
func of(p *virtual.Process) *process {
	if p == nil {
		return nil
	}
	return p.Watch().(*process)
}

func (p *process) Event(ev engine.Event) {
	p.w.trace.Event(p.w.scene(p), ev)
	p.before(ev)
}

func (p *process) Stepped() { p.w.oracle.viewed(p) }

func (p *process) Action(a engine.Action) (taken bool) {
	o := &p.w.oracle
	p.w.trace.Action(p.w.scene(p), a)
	switch a := a.(type) {
	case engine.MemberAction:
		o.leaves(p, a.Action)
		o.joins(p, a.Action)
	case engine.FetchOffsets:
		return isBoard(a.Parts[0]) && p.boardFault(func() { p.Carry(a) }, func() { p.Tell(engine.OffsetsFetched{Request: a.Request, Err: virtual.ErrCut}) })
	case engine.CommitOffsets:
		if !isBoard(a.Offsets[0].TopicPartition) {
			return false
		}
		a.Offsets = slices.Clone(a.Offsets)
		p.boardWrite = a.Request
		return p.boardFault(func() { p.Carry(a) }, func() {
			p.boardDropped = a.Request
			p.Tell(engine.OffsetsCommitted{Request: a.Request, Err: virtual.ErrCut})
		})
	case engine.CloseStores:
		o.closesStore(p, a.Task)
	case engine.Wipe:
		o.wipes(p, a.Task)
	case engine.DropStored:
		o.drops(p, a.Task)
	case engine.ReadyStores:
		if len(p.Stores) > 0 {
			p.w.violated("%s: the stores of %d tasks are open when the database is made ready", p.name, len(p.Stores))
		}
	case engine.StartTask:
		o.starts(p, a)
	case engine.ToTask:
		o.told(p, a)
	case engine.ToSender:
		if t, ok := a.Event.(engine.Tenure); ok {
			o.changes(t.TopicPartition).granted(t)
		}
	case engine.Note:
		o.noticed(p, a.Note)
	}
	return false
}

func (p *process) Exited(err error) { p.host.exited(err) }

func (p *process) SenderAction(a engine.SenderAction) {
	switch a := a.(type) {
	case engine.Produce:
		for _, b := range a.Batches {
			records := 0
			for _, g := range b.Groups {
				records += len(g.Records())
			}
			p.w.trace.Hidden(p.w.scene(p), b.Topic, task.ID{Partition: b.Partition}, int64(b.FirstSequence), int64(records))
		}
	case engine.DisconnectProduce:
		p.w.note(p, "cuts its produce connections", task.ID{}, 0, 0)
	}
}

func (p *process) TaskStarts(t *virtual.Task, a engine.StartTask, s statestore.TaskStores) {
	r := &taskRun{Task: t, p: p, key: t.Key, paths: newPaths(a)}
	if s != nil {
		p.w.oracle.restored(p, a.Task, s)
		r.view = rows(s.Reader(storeCounts))
		r.counting = newCounting(r.paths, p.w.asideIn(s))
		for offset := range r.counting.loaded {
			if offset >= r.paths.from || r.paths.inGap(offset) {
				p.w.saw(RecordAsleep)
			}
		}
	}
	p.runs[t.Key] = r
	p.w.oracle.running(p, a.Task)
}

func (p *process) TaskEvent(t *virtual.Task, ev task.Event) {
	switch ev.(type) {
	case task.Resume:
		p.w.oracle.running(p, t.Key.Task)
	case task.Lost, task.Close:
		p.w.oracle.stopped(p, t.Key.Task)
		p.runs[t.Key].paths.over = true
	}
	if _, ok := ev.(task.Work); !ok {
		p.w.trace.TaskEvent(p.w.scene(p), t.Key, ev)
	}
}

func (p *process) TaskStepped(*virtual.Task) {
	if p.doomed {
		p.host.dies()
	}
}

func (p *process) TaskAction(t *virtual.Task, a task.Action) {
	r := p.runs[t.Key]
	p.w.trace.TaskAction(p.w.scene(p), t.Key, a)
	switch a := a.(type) {
	case task.Seal:
		if r.view != nil {
			p.w.oracle.sealed(r, a.Sealed)
		}
	case task.Noted:
		if a.Kind == task.NoteOutage {
			p.w.saw(BreakerOpened)
		}
	case task.Released:
		if t.Owner.State() != task.StateRunning { // else it answers a release that was taken back
			p.w.oracle.stopped(p, t.Key.Task)
		}
	case task.Closed:
		p.past[t.Key.Task] = r.paths
		delete(p.runs, t.Key)
	}
}

func (p *process) StoresOpened(a engine.OpenStores) { p.opened[a.Task] = a.Epoch }

func (p *process) Applied(a engine.Apply, s statestore.TaskStores) {
	p.host.wrote()
	p.w.oracle.applied(p, a, s)
}

func (p *process) SlowWrite(took time.Duration) {
	if took > 500*time.Millisecond {
		p.w.saw(SlowWrite)
	}
}

func (p *process) Sends(l *virtual.Link, req modelbroker.Request) (held bool) {
	r, ok := req.(modelbroker.ProduceRequest)
	if !ok {
		return false
	}
	if p.host.held(l, r) {
		return true
	}
	p.w.oracle.sent(p, r)
	return false
}

// troubles are what the network says, as kinds.
var troubles = [...]Kind{
	virtual.LostRequest: LostRequest, virtual.LostAnswer: LostAnswer, virtual.LateRequest: LateRequest, virtual.LateAnswer: LateAnswer,
	virtual.Reordered: Reordered, virtual.CutOut: CutOut, virtual.CutIn: CutIn,
}

// network is what the network is seen by.
type network struct{ w *world }

func (n network) Saw(t virtual.Trouble)                             { n.w.saw(troubles[t]) }
func (n network) Request(c *virtual.Call)                           { n.w.oracle.request(c, c.Req) }
func (n network) Answer(c *virtual.Call, r modelbroker.Response)    { n.w.oracle.answer(c, r) }
func (n network) Message(l *virtual.Link, way virtual.Way, msg any) { n.w.traceMessage(l, way, msg) }
