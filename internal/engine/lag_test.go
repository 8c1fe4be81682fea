package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// lagOf0 is the lag of in-0 after task 0_0, which began at 100, has said this.
func (w *world) lagOf0(said *task.Lag, ends map[task.TopicPartition]int64) PartLag {
	ev := LagKnown{Ends: ends}
	if said != nil {
		ev.Told = map[FetchSource]task.Lag{w.e.lives[id00].input(0): *said}
	}
	lags := w.e.Lag(ev)
	require.Len(w.t, lags, 1)
	return lags[0]
}

func TestLagNeverLies(t *testing.T) {
	end := func(n int64) map[task.TopicPartition]int64 { return map[task.TopicPartition]int64{in0: n} }
	tests := []struct {
		name string
		said *task.Lag
		ends map[task.TopicPartition]int64
		want PartLag
	}{
		{"no leader has told yet", &task.Lag{Position: 110, Oldest: 5}, nil, PartLag{Position: 110, Oldest: 5}},
		{"all is done", &task.Lag{Position: 120, Oldest: 5}, end(120), PartLag{Position: 120, End: 120, Oldest: 5, Known: true}},
		{"some is not", &task.Lag{Position: 110, Oldest: 5}, end(120), PartLag{Position: 110, End: 120, Offsets: 10, Oldest: 5, Known: true}},
		{"what is done above is no lag", &task.Lag{Position: 110, Done: 7, Oldest: 5}, end(120), PartLag{Position: 110, End: 120, Offsets: 3, Oldest: 5, Known: true}},
		{"the task is ahead of the last answer", &task.Lag{Position: 130, Done: 2, Oldest: 5}, end(120), PartLag{Position: 130, End: 130, Oldest: 5, Known: true}},
		{"more is done than the last answer knows of", &task.Lag{Position: 110, Done: 30, Oldest: 5}, end(120), PartLag{Position: 110, End: 120, Oldest: 5, Known: true}},
		{"an empty partition", &task.Lag{Position: 0, Oldest: -1}, end(0), PartLag{Position: 0, Oldest: -1, Known: true}},
		{"the task does not answer", nil, end(120), PartLag{Position: 100, End: 120, Offsets: 20, Oldest: -1, Known: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := running(t, nil, id00)
			test.want.Part, test.want.Task = in0, id00
			require.Equal(t, test.want, w.lagOf0(test.said, test.ends))
		})
	}
}

func TestLagOfATaskInALongCallIsWhatItSaidLast(t *testing.T) {
	w := running(t, nil, id00)
	w.looked(&task.Lag{Position: 110, Done: 4, Oldest: 7}, 120)
	g := w.lagOf0(nil, map[task.TopicPartition]int64{in0: 130})
	require.Equal(t, PartLag{Part: in0, Task: id00, Position: 110, End: 130, Offsets: 16, Oldest: 7, Known: true}, g)
}

// looked lets the engine have its next look, in which task 0_0 says this, or nothing, and in-0 ends there; -1: nobody knows where.
func (w *world) looked(said *task.Lag, end int64, calls ...Call) {
	w.t.Helper()
	for asked := false; !asked; {
		w.beat = 0
		w.after(100 * time.Millisecond)
		asked = len(acted[AskLag](w)) > 0
		refresh := len(acted[RefreshMetadata](w)) > 0
		if w.beat != 0 {
			w.heartbeatAnswered()
		}
		if refresh {
			w.metadata()
		}
	}
	ev := LagKnown{Told: map[FetchSource]task.Lag{}, Ends: map[task.TopicPartition]int64{}, Calls: calls}
	if said != nil {
		ev.Told[w.e.lives[id00].input(0)] = *said
	}
	if end >= 0 {
		ev.Ends[in0] = end
	}
	w.step(ev)
}

// lookedFor lets it look for some time.
func (w *world) lookedFor(d time.Duration, said *task.Lag, end int64, calls ...Call) {
	for until := w.now.Add(d); w.now.Before(until); {
		w.looked(said, end, calls...)
	}
}

func TestStuckPartitionIsToldOncePerEpisode(t *testing.T) {
	w := running(t, func(c *Config) { c.StuckAfter = time.Minute }, id00)
	w.lookedFor(5*time.Minute, &task.Lag{Position: 100}, 100)
	require.Empty(t, w.notices(NoticePartStuck), "there is nothing to be read")

	failing := &task.Lag{Position: 100, Why: "the record at offset 100 has failed"}
	w.lookedFor(50*time.Second, failing, 120)
	require.Empty(t, w.notices(NoticePartStuck))
	require.False(t, w.lagOf0(failing, nil).Stuck)
	w.lookedFor(5*time.Minute, failing, 120)
	stuck := w.notices(NoticePartStuck)
	require.Len(t, stuck, 1)
	require.Equal(t, in0, stuck[0].Part)
	require.EqualValues(t, 100, stuck[0].Position)
	require.EqualValues(t, 120, stuck[0].End)
	require.Equal(t, "the record at offset 100 has failed", stuck[0].Text)
	require.InDelta(t, time.Minute, stuck[0].Took, float64(10*time.Second))
	require.True(t, w.lagOf0(failing, nil).Stuck)
	require.Empty(t, w.notices(NoticePartMoves))

	w.seal(id00, 1, 105)
	w.acked(id00, 1)
	w.after(20 * time.Millisecond)
	w.answerCommit(w.lastCommit(), kcode.None)
	w.looked(&task.Lag{Position: 105}, 120)
	require.Len(t, w.notices(NoticePartMoves), 1)
	require.False(t, w.lagOf0(failing, nil).Stuck)

	w.lookedFor(70*time.Second, failing, 120)
	require.Len(t, w.notices(NoticePartStuck), 2, "another episode")
}

func TestStuckPartitionSaysWhy(t *testing.T) {
	call := Call{Task: id00, Part: in0, Offset: 100}
	tests := []struct {
		name  string
		said  *task.Lag
		end   int64
		calls []Call
		do    func(w *world)
		want  string
	}{
		{"a call", nil, 120, []Call{call}, nil, "a call of user code does not return: " + call.String()},
		{"a task that does not answer", nil, 120, nil, nil, "the task does not answer"},
		{"no leader", &task.Lag{Position: 100}, -1, nil, func(w *world) {
			src := w.e.lives[id00].input(0)
			w.step(PartMoved{PartLost{Source: src, Offset: 100}})
			w.step(MetadataKnown{Leaders: map[task.TopicPartition]Leader{in0: {-1, 5}}, Counts: map[string]int32{"in": 2, "words": 1, "log": 1}})
			w.e.routes.asked = true // and nobody answers any more
		}, "no broker leads the partition, or none that can be reached"},
		{"acks", &task.Lag{Position: 120}, 120, nil, func(w *world) { w.seal(id00, 1, 120) },
			"the brokers have not acknowledged what the task has written, and its commit waits for that"},
		{"a silent broker", &task.Lag{Position: 100}, 120, nil, nil, "nothing of it comes from its broker"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := running(t, func(c *Config) { c.StuckAfter = time.Minute }, id00)
			if test.do != nil {
				test.do(w)
			}
			w.lookedFor(2*time.Minute, test.said, test.end, test.calls...)
			stuck := w.notices(NoticePartStuck)
			require.Len(t, stuck, 1)
			require.Equal(t, test.want, stuck[0].Text)
		})
	}
}

func TestStuckPartitionThatGoesElsewhereIsForgotten(t *testing.T) {
	w := running(t, func(c *Config) { c.StuckAfter = time.Minute }, id00)
	w.lookedFor(2*time.Minute, &task.Lag{Position: 100, Why: "it fails"}, 120)
	require.Len(t, w.notices(NoticePartStuck), 1)
	w.e.loseLife(w.e.lives[id00])
	w.closed(id00)
	require.Empty(t, w.e.Lag(LagKnown{}), "what is not here has no gauge")
	w.step(LagKnown{})
	require.Len(t, w.notices(NoticePartMoves), 1)
	require.Empty(t, w.e.lags.parts)
}

func TestStuckAlarmThatIsOff(t *testing.T) {
	w := running(t, func(c *Config) { c.StuckAfter = -1 }, id00)
	w.lookedFor(20*time.Minute, &task.Lag{Position: 100, Why: "it fails"}, 120)
	require.Empty(t, w.notices(NoticePartStuck))
}
