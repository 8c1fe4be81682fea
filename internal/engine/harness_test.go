package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

const coordinator = "broker-0:9092"

var (
	errDown = errors.New("nobody answers")

	in0    = task.TopicPartition{Topic: "in", Partition: 0}
	in1    = task.TopicPartition{Topic: "in", Partition: 1}
	words0 = task.TopicPartition{Topic: "words", Partition: 0}
	log0   = task.TopicPartition{Topic: "log", Partition: 0}

	id10 = task.ID{Subtopology: 1, Partition: 0} // reads words-0 and has a store whose changelog is log-0; 0_0 and 0_1 read in-0 and in-1
)

// world drives an Engine by hand: it plays the shell, and answers what a test does not answer itself.
type world struct {
	t    *testing.T
	e    *Engine
	now  time.Time
	acts []Action  // of the last step
	all  []Action  // of all steps
	wake time.Time // the earliest time asked for since the last Tick

	join, sync, beat uint64 // requests of the member that are out
	generation       int32
	hashes           map[int32]uint64
	disk             bool // the test answers ListStored
}

func newWorld(t *testing.T, change func(*Config)) *world {
	cfg := Config{
		Group: group.Config{Group: "app"}, Hashes: map[int32]uint64{0: 10, 1: 11},
		Specs: []*task.Spec{
			{Subtopology: 0, Inputs: []task.Input{{Topic: "in"}}},
			{Subtopology: 1, Inputs: []task.Input{{Topic: "words", Repartition: true}},
				Stores: []task.Store{{Spec: statestore.Spec{Name: "counts"}, Changelog: "log"}}},
		},
		NoOffset: func(string) Reset { return ResetLatest },
	}
	if change != nil {
		change(&cfg)
	}
	return &world{t: t, e: New(cfg), now: t0, hashes: cfg.Hashes}
}

func (w *world) step(ev Event) {
	if _, tick := ev.(Tick); tick {
		w.wake = time.Time{}
	}
	w.acts = slices.Clone(w.e.Step(w.now, ev))
	if len(acted[ListStored](w)) > 0 && !w.disk { // there is nothing on disk
		w.acts = append(w.acts, w.e.Step(w.now, StoredKnown{})...)
	}
	w.all = append(w.all, w.acts...)
	for _, a := range w.acts {
		if a, ok := a.(Wake); ok && (w.wake.IsZero() || a.At.Before(w.wake)) {
			w.wake = a.At
		}
		m, ok := a.(MemberAction)
		if !ok {
			continue
		}
		switch m := m.Action.(type) {
		case group.SendJoin:
			w.join = m.Req
		case group.SendSync:
			w.sync = m.Req
		case group.SendHeartbeat:
			w.beat = m.Req
		}
	}
}

// after lets time pass at once, and the Engine notice.
func (w *world) after(d time.Duration) {
	w.now = w.now.Add(d)
	w.step(Tick{})
}

// acted returns the actions of one type in the last step.
func acted[T Action](w *world) []T { return ofType[T](w.acts) }

// ever returns them of all steps.
func ever[T Action](w *world) []T { return ofType[T](w.all) }

func ofType[T Action](acts []Action) []T {
	var out []T
	for _, a := range acts {
		if a, ok := a.(T); ok {
			out = append(out, a)
		}
	}
	return out
}

// only returns the one action of a type in the last step.
func only[T Action](w *world) T {
	w.t.Helper()
	got := acted[T](w)
	require.Len(w.t, got, 1)
	return got[0]
}

// latest returns the newest action of a type.
func latest[T Action](w *world) T {
	w.t.Helper()
	got := ever[T](w)
	require.NotEmpty(w.t, got)
	return got[len(got)-1]
}

func (w *world) notices(kind NoticeKind) []Notice {
	var out []Notice
	for _, n := range ever[Note](w) {
		if n.Note.Kind == kind {
			out = append(out, n.Note)
		}
	}
	return out
}

// told returns what a task's owner was told in the last step.
func (w *world) told(id task.ID) []task.Event {
	var out []task.Event
	for _, a := range acted[ToTask](w) {
		if a.Task == id {
			out = append(out, a.Event)
		}
	}
	return out
}

func (w *world) epoch(id task.ID) uint64 {
	require.Contains(w.t, w.e.lives, id)
	return w.e.lives[id].epoch
}

// topics answers EnsureTopics: "in" has two partitions, the others one.
func (w *world) topics() {
	w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "words": 1, "log": 1}})
}

// joinGroup takes the application to its first JoinGroup.
func (w *world) joinGroup() {
	w.step(Start{})
	w.topics()
	w.step(Member{group.CoordinatorFound{Req: w.find(), Addr: coordinator}})
	require.NotZero(w.t, w.join)
}

func (w *world) find() uint64 {
	for _, a := range ever[MemberAction](w) {
		if f, ok := a.Action.(group.FindCoordinator); ok {
			return f.Req
		}
	}
	w.t.Fatal("nobody asked for the coordinator")
	return 0
}

// assign ends a join barrier with an assignment of the next generation.
func (w *world) assign(tasks []task.ID, marked ...task.ID) {
	w.t.Helper()
	plan := assignor.PlanData{Members: 2, Active: tasks}
	for _, id := range marked {
		plan.Marks = append(plan.Marks, assignor.Mark{Task: id, Receiver: "other", Ready: true})
	}
	w.assignPlan(plan)
}

// assignPlan ends a join barrier with this plan.
func (w *world) assignPlan(plan assignor.PlanData) {
	w.t.Helper()
	require.NotZero(w.t, w.join, "no JoinGroup is out")
	w.generation++
	w.step(Member{group.JoinDone{Req: w.join, Sent: w.now, MemberID: "m", Generation: w.generation}})
	plan.Generation = w.generation
	for sub, h := range w.hashes {
		plan.Hashes = append(plan.Hashes, assignor.Hash{Subtopology: sub, Sum: h})
	}
	w.join = 0
	w.step(Member{group.SyncDone{Req: w.sync, Sent: w.now, Assignment: assignor.Assignment{UserData: plan.Append(nil)}.Append(nil)}})
}

// rebalance lets the next heartbeat say that a rebalance is under way.
func (w *world) rebalance() {
	w.t.Helper()
	w.heartbeat(kcode.RebalanceInProgress)
}

func (w *world) heartbeat(code kcode.Code) {
	w.t.Helper()
	for w.beat = 0; w.beat == 0; {
		w.after(100 * time.Millisecond)
	}
	w.step(Member{group.HeartbeatDone{Req: w.beat, Sent: w.now, Code: code}})
}

// alive lets time pass with heartbeats that are answered, and metadata that stays the same.
func (w *world) alive(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.beat = 0
		w.after(250 * time.Millisecond)
		asked := len(acted[RefreshMetadata](w)) > 0
		if w.beat != 0 {
			w.heartbeatAnswered()
		}
		if asked {
			w.metadata()
		}
	}
}

func (w *world) heartbeatAnswered() { w.step(Member{group.HeartbeatDone{Req: w.beat, Sent: w.now}}) }

// metadata answers RefreshMetadata: broker 1 leads everything.
func (w *world) metadata() {
	w.step(MetadataKnown{
		Leaders: map[task.TopicPartition]Leader{in0: {1, 5}, in1: {1, 5}, words0: {1, 5}, log0: {1, 5}},
		Counts:  map[string]int32{"in": 2, "words": 1, "log": 1},
	})
}

// running takes the application to where the tasks run that it is assigned. What is committed is 100 everywhere; changelogs are empty.
func running(t *testing.T, change func(*Config), tasks ...task.ID) *world {
	w := newWorld(t, change)
	w.joinGroup()
	w.assign(tasks)
	w.openAll()
	w.metadata()
	require.Equal(t, Running, w.e.State())
	return w
}

// openAll answers everything that opening tasks wait for.
func (w *world) openAll() {
	w.t.Helper()
	for _, o := range acted[OpenStores](w) {
		w.stores(o.Task, statestore.NoPosition)
	}
	for _, f := range ever[FetchOffsets](w) {
		if f.Request == w.e.opens.fetch {
			w.committedAt(100, f)
		}
	}
	for _, l := range ever[ListOffsets](w) {
		if l.Request == w.e.opens.list {
			w.listed(l, 0, 0)
		}
	}
}

func (w *world) stores(id task.ID, positions ...int64) {
	w.step(StoresOpened{Task: id, Epoch: w.epoch(id), Positions: positions})
}

func (w *world) committedAt(offset int64, f FetchOffsets) {
	ev := OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{}}
	for _, tp := range f.Parts {
		ev.Offsets[tp] = CommittedOffset{Offset: offset}
	}
	w.step(ev)
}

// listed answers a ListOffsets: all logs go from first to end.
func (w *world) listed(l ListOffsets, first, end int64) {
	ev := OffsetsListed{Request: l.Request, Earliest: map[task.TopicPartition]int64{}, End: map[task.TopicPartition]int64{}}
	for _, tp := range l.Parts {
		ev.Earliest[tp], ev.End[tp] = first, end
	}
	w.step(ev)
}

// seal hands over a commit of a task up to an offset of its input. One with a store writes a row.
func (w *world) seal(id task.ID, seq uint64, offset int64) {
	s := &task.Sealed{Task: id, Epoch: w.epoch(id), Seq: seq}
	tp := task.TopicPartition{Topic: "in", Partition: id.Partition}
	if id.Subtopology == 1 {
		tp.Topic = "words"
		s.Stores = []task.SealedStore{{Store: 0, Changelog: log0, Changes: []statestore.Change{{Key: []byte("k"), Value: []byte("v")}}}}
	}
	s.Offsets = []task.InputOffset{{TopicPartition: tp, Offset: offset, Metadata: "m"}}
	w.step(TaskSealed{s})
}

func (w *world) acked(id task.ID, seq uint64, offsets ...GroupOffset) {
	w.step(EffectsDone{EffectsAcked{Task: id, Epoch: w.epoch(id), Seq: seq, Offsets: offsets}})
}

// answerCommit answers the commit with one code for all of its partitions.
func (w *world) answerCommit(c CommitOffsets, code kcode.Code) {
	ev := OffsetsCommitted{Request: c.Request, Codes: map[task.TopicPartition]kcode.Code{}}
	for _, o := range c.Offsets {
		ev.Codes[o.TopicPartition] = code
	}
	w.step(ev)
}

// lastCommit is the newest commit that was sent.
func (w *world) lastCommit() CommitOffsets {
	w.t.Helper()
	all := ever[CommitOffsets](w)
	require.NotEmpty(w.t, all)
	return all[len(all)-1]
}

// closed answers what the end of a task waits for.
func (w *world) closed(id task.ID) {
	epoch := w.epoch(id)
	if w.e.lives[id].owned {
		w.step(TaskClosed{Task: id, Epoch: epoch})
	}
	if len(acted[CloseStores](w)) > 0 {
		w.step(StoresClosed{Task: id, Epoch: epoch})
	}
}

func (w *world) done() error {
	w.t.Helper()
	got := ever[Done](w)
	require.Len(w.t, got, 1, "the application has not ended")
	return got[0].Err
}
