package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func recovering(c *Config) {
	c.Recover = 10
	spec := *c.Specs[0]
	spec.Recovers = true
	c.Specs[0] = &spec
}

// died is what a runner has committed that ended in the middle.
func died(t *testing.T, m retry.Metadata, offset int64) CommittedOffset {
	m.Running = true
	if m.Suspect == 0 {
		m.Suspect = -1
	}
	text, ok := m.Encode(offset)
	require.True(t, ok)
	return CommittedOffset{Offset: offset, Metadata: text}
}

// opened takes the task to where it runs: with this commit, and these bounds of its input.
func recoveringWorld(t *testing.T, c CommittedOffset, first, end int64) *world {
	w := openingWorld(t, recovering, id00)
	list := only[ListOffsets](w)
	require.Equal(t, []task.TopicPartition{in0}, list.Parts, "together with the committed offsets: no time is lost")
	w.listed(list, first, end)
	w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: c}})
	require.Equal(t, Running, w.e.State())
	return w
}

// fetchOf is the last thing that was said to the planners about a source.
func (w *world) fetchOf(p Purpose) (last Fetch) {
	for _, f := range acted[Fetch](w) {
		if f.Purpose == p {
			last = f
		}
	}
	return last
}

func (w *world) gapSource() FetchSource {
	return FetchSource{TopicPartition: in0, Task: id00, Epoch: w.epoch(id00), Index: len(w.e.specs[0].Inputs)}
}

func (w *world) gapAdd(offset int64) FetchAdd {
	return FetchAdd{Source: w.gapSource(), Offset: offset, LeaderEpoch: 5, Bound: 4 << 20}
}

// firstCommit lets the task commit that it runs, with its gap.
func (w *world) firstCommit() {
	w.t.Helper()
	w.seal(id00, 0, 70)
	w.answerCommit(w.lastCommit(), kcode.None)
}

func TestRecoveryOpensTwoPaths(t *testing.T) {
	w := recoveringWorld(t, died(t, retry.Metadata{StreamTime: 777, Main: 70}, 70), 5, 120)
	s := only[StartTask](w)
	require.Equal(t, []int64{120}, s.Positions)
	require.Equal(t, []retry.Split{{Low: 70, Gap: []retry.Run{{From: 70, To: 120}}, Main: 120}}, s.Splits)
	n := w.notices(NoticeGap)
	require.Len(t, n, 1)
	require.Equal(t, Notice{Kind: NoticeGap, Task: id00, Part: in0, Start: 70, Position: 70, End: 120, Records: 50}, n[0])
	w.metadata()
	main := FetchSource{TopicPartition: in0, Task: id00, Epoch: w.epoch(id00)}
	require.Equal(t, FetchAdd{Source: main, Offset: 120, LeaderEpoch: 5, Bound: 4 << 20}, w.fetchOf(Input).Event)
	require.Equal(t, []RecoveryStatus{{
		Task: id00, Part: in0, Replay: task.Replay{Lo: 70, Hi: 120, Position: 70, Left: 50}, Since: w.now, Heartbeat: w.now,
	}}, w.e.Recovery())
	w.firstCommit()
	w.after(headStart)
	require.Equal(t, w.gapAdd(70), w.fetchOf(Recover).Event)
}

// Only a crash needs the log's end. A task whose last runner has ended properly, as one does that hands it over, does not wait for that.
func TestRecoveryHoldsUpNoHandover(t *testing.T) {
	w := openingWorld(t, recovering, id00)
	require.Len(t, acted[ListOffsets](w), 1, "it is asked for together with the offsets")
	w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: 70, Metadata: streamTime(777, 70)}}})
	require.Equal(t, []int64{70}, only[StartTask](w).Positions)

	w = openingWorld(t, recovering, id00)
	w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: died(t, retry.Metadata{Main: 70}, 70)}})
	require.Empty(t, acted[StartTask](w), "it may have to go on there")
	w.listed(latest[ListOffsets](w), 5, 120)
	require.Equal(t, []int64{120}, only[StartTask](w).Positions)
}

func TestRecoveryOpensOnePathWhereOneWillDo(t *testing.T) {
	for name, c := range map[string]CommittedOffset{
		"clean end":  {Offset: 70, Metadata: streamTime(777, 70)},
		"small lag":  died(t, retry.Metadata{Main: 110}, 110),
		"suspect":    died(t, retry.Metadata{Main: 71, Suspect: 70, Starts: 2}, 70),
		"two starts": died(t, retry.Metadata{Main: 70, Starts: 1}, 70),
	} {
		t.Run(name, func(t *testing.T) {
			w := recoveringWorld(t, c, 5, 120)
			s := only[StartTask](w)
			require.Nil(t, s.Splits)
			require.Equal(t, []int64{c.Offset}, s.Positions)
			require.Empty(t, w.e.Recovery())
		})
	}
}

// A log that ends before what the commit speaks of is another one: nothing of it is taken as done, and it is read from the offset.
func TestRecoveryOfALogThatWasCutOff(t *testing.T) {
	w := recoveringWorld(t, died(t, retry.Metadata{Main: 130, Holes: []retry.Run{{From: 70, To: 80}}}, 70), 5, 120)
	s := only[StartTask](w)
	require.Nil(t, s.Splits)
	require.Equal(t, []int64{70}, s.Positions)
	require.Len(t, w.notices(NoticeMetadata), 1)
}

func TestRecoveryProgress(t *testing.T) {
	w := recoveringWorld(t, died(t, retry.Metadata{Main: 70}, 70), 5, 120)
	w.metadata()
	w.firstCommit()
	tell := func(after time.Duration, r task.Replay) RecoveryStatus {
		w.now = w.now.Add(after)
		r.Lo, r.Hi = 70, 120
		w.step(TaskReplays{Task: id00, Epoch: w.epoch(id00), Replay: r})
		return w.e.Recovery()[0]
	}
	s := tell(time.Second, task.Replay{Position: 75, Left: 45})
	require.Equal(t, RecoveryReplaying, s.State)
	require.InDelta(t, 5, s.Rate, 1e-9)
	require.Equal(t, 9*time.Second, s.ETA)
	require.Equal(t, w.now, s.Heartbeat)
	require.Empty(t, w.notices(NoticeReplay))

	s = tell(5*time.Second, task.Replay{Position: 85, Left: 35})
	require.Len(t, w.notices(NoticeReplay), 1)
	require.InDelta(t, 3.5, s.Rate, 1e-9)

	// Nothing comes for half a minute.
	beat := w.now
	w.alive(RecoveryStalls)
	s = w.e.Recovery()[0]
	require.Equal(t, RecoveryStalled, s.State)
	require.Equal(t, beat, s.Heartbeat)
	require.Zero(t, s.ETA)
	require.Len(t, w.notices(NoticeReplayStalled), 1)
	w.alive(RecoveryStalls)
	require.Len(t, w.notices(NoticeReplayStalled), 1, "it is said once")

	// It goes on, and is read to its end while some of it is not done.
	s = tell(time.Second, task.Replay{Position: 120, Left: 3})
	require.Equal(t, RecoveryReplaying, s.State)
	require.Equal(t, FetchRemove{Source: w.gapSource()}, w.fetchOf(Recover).Event)
	s = tell(time.Second, task.Replay{Position: 120, Closed: true})
	require.Equal(t, RecoveryDone, s.State)
	require.Len(t, w.notices(NoticeGapClosed), 1)
	w.alive(2 * RecoveryStalls)
	require.Len(t, w.notices(NoticeReplayStalled), 1, "what is done stands still")
}

// Retention has taken records of the gap: the second path goes on where the log begins, and the policy for offsets that are out of range, which
// is to stop, is not asked.
func TestRecoveryIsOvertaken(t *testing.T) {
	for _, c := range []struct {
		name       string
		first, end int64
		trimmed    int64 // 0: nothing is lost
		goesOnAt   int64 // 0: there is nothing to read
	}{
		{"some of it is gone", 90, 500, 90, 90},
		{"all of it is gone", 300, 500, 120, 0},
		{"the log is cut off at its end", 5, 74, 120, 0},
		{"a broker that did not know of it yet", 5, 500, 0, 75},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := recoveringWorld(t, died(t, retry.Metadata{Main: 70}, 70), 5, 120)
			w.metadata()
			w.firstCommit()
			w.after(headStart)
			w.step(PartStopped{Failed: PartFailed{Source: w.gapSource(), Offset: 75, Code: kcode.OffsetOutOfRange}})
			w.alive(w.e.cfg.Backoff)
			w.listed(latest[ListOffsets](w), c.first, c.end)
			var told []task.Event
			for _, a := range acted[ToTask](w) {
				told = append(told, a.Event)
			}
			var want []task.Event
			if c.trimmed > 0 {
				want = []task.Event{task.Trimmed{Input: 0, First: c.trimmed}}
			}
			require.Equal(t, want, told)
			require.Equal(t, Running, w.e.State())
			require.Empty(t, w.notices(NoticeReset))
			if c.goesOnAt > 0 {
				require.Equal(t, w.gapAdd(c.goesOnAt), w.fetchOf(Recover).Event)
			} else {
				require.NotContains(t, w.e.routes.all, w.gapSource())
			}
		})
	}
}

func TestRecoverySaysExactlyWhatIsLost(t *testing.T) {
	w := recoveringWorld(t, died(t, retry.Metadata{Main: 70}, 70), 5, 120)
	lost := []retry.Run{{From: 78, To: 90}, {From: 95, To: 100}}
	w.step(TaskReplays{Task: id00, Epoch: w.epoch(id00), Replay: task.Replay{Lo: 70, Hi: 120, Position: 75, Left: 20, Lost: lost[:1]}})
	w.step(TaskReplays{Task: id00, Epoch: w.epoch(id00), Replay: task.Replay{Lo: 70, Hi: 120, Position: 120, Lost: lost, Closed: true}})
	n := w.notices(NoticeRangeLost)
	require.Len(t, n, 2)
	require.EqualValues(t, []int64{78, 90, 12}, []int64{n[0].Start, n[0].End, n[0].Records})
	require.EqualValues(t, []int64{95, 100, 5}, []int64{n[1].Start, n[1].End, n[1].Records})
	s := w.e.Recovery()[0]
	require.Equal(t, RecoveryLost, s.State)
	require.True(t, s.Closed)
}

// A life that was given up as a broker has refused a record has not died: its next one goes on in order, however far the end of the log is.
func TestRecoveryIsNotBegunAfterARefusal(t *testing.T) {
	w := openingWorld(t, func(c *Config) { recovering(c); withProducePolicy(c) }, id00)
	ended := CommittedOffset{Offset: 70, Metadata: streamTime(777, 70)}
	open := func(c CommittedOffset) StartTask {
		w.listed(latest[ListOffsets](w), 5, 120)
		w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: c}})
		return only[StartTask](w)
	}
	require.Nil(t, open(ended).Splits)
	w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: refusal(7)})
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	start := open(died(t, retry.Metadata{Main: 70}, 70))
	require.Nil(t, start.Splits)
	require.Equal(t, []int64{70}, start.Positions)
	require.Empty(t, w.e.Recovery())
}
