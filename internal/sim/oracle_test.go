package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// What must hold is only worth something if it is noticed when it does not.
func TestOracleNotices(t *testing.T) {
	id := task.ID{Subtopology: 1}
	words := task.TopicPartition{Topic: topicWords}
	produced := func(w *world, p *process, tp task.TopicPartition, records ...task.OutRecord) {
		end := int64(len(w.oracle.logs[tp]))
		w.oracle.appended(&link{w: w, p: p}, modelbroker.ProduceBatch{TopicPartition: tp, Records: records}, end)
	}
	row := func(ids ...int) []byte {
		b := counted(nil, ids[0], 120)
		for _, id := range ids[1:] {
			b = counted(b, id, 120)
		}
		return b
	}
	cases := []struct {
		name string
		play func(w *world, a, b *process)
		says string
	}{
		{"two run a task", func(w *world, a, b *process) {
			w.oracle.running(a, id)
			w.oracle.running(b, id)
		}, "B1 begins to run task 1_0 while A1 runs it"},
		{"an offset goes back", func(w *world, a, _ *process) {
			w.oracle.members["m"] = a
			w.oracle.committed(modelbroker.Commit{MemberID: "m", TopicPartition: words, Before: 5, Offset: 4})
		}, "goes back from 5 to 4"},
		{"a commit of one who does not run the task", func(w *world, a, b *process) {
			w.oracle.members["m"] = a
			w.oracle.running(b, id)
			w.oracle.committed(modelbroker.Commit{MemberID: "m", TopicPartition: words})
		}, "committed by a member that does not run task 1_0"},
		{"a commit passes a record that was not counted", func(w *world, a, _ *process) {
			w.oracle.members["m"] = a
			produced(w, a, words, task.OutRecord{Value: recordValue(7)})
			w.oracle.committed(modelbroker.Commit{MemberID: "m", TopicPartition: words, Before: -1, Offset: 1})
		}, "record 7 at 0 left no trace"},
		{"a row loses a record", func(w *world, a, _ *process) {
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1, 2)})
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
		}, "with 1 records to the changelog, which had one with 2"},
		{"a store that is not its changelog", func(w *world, a, _ *process) {
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
			ts, err := w.hosts[0].disk.Open(id, []statestore.Spec{{Name: "counts"}})
			require.NoError(t, err)
			require.NoError(t, ts.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{
				Position: 1, Changes: []statestore.Change{{Key: []byte("w"), Value: row(1, 1)}},
			}}}))
			w.oracle.restored(a, id, &openStores{ts})
		}, "is not that of its changelog: count 2, not 1"},
		{"a store that has more than its changelog", func(w *world, a, _ *process) {
			ts, err := w.hosts[0].disk.Open(id, []statestore.Spec{{Name: "counts"}})
			require.NoError(t, err)
			require.NoError(t, ts.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Changes: []statestore.Change{{Key: []byte("w"), Value: row(1)}}}}}))
			w.oracle.applied(a, engine.Apply{Task: id}, &openStores{ts})
		}, "has 1 rows, its changelog makes 0"},
		{"a produce request for a task of somebody else", func(w *world, a, b *process) {
			w.oracle.running(b, id)
			w.oracle.sent(a, modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{{TopicPartition: counts(0)}}})
		}, "A1 sends records of task 1_0, which B1 runs"},
		{"a purge of what is not committed", func(w *world, a, _ *process) {
			w.oracle.request(&call{link: &link{p: a}}, modelbroker.DeleteRecordsRequest{Parts: []modelbroker.DeleteRecordsPart{{TopicPartition: words, Before: 3}}})
		}, "below 3, committed is -1"},
		{"a generation twice", func(w *world, a, _ *process) {
			w.oracle.noticed(a, engine.Notice{Kind: engine.NoticeAssigned, Generation: 2})
			w.oracle.noticed(a, engine.Notice{Kind: engine.NoticeAssigned, Generation: 2})
		}, "applies generation 2 after 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(Config{Seed: 1}.withDefaults())
			c.play(w, &process{w: w, host: w.hosts[0], name: "A1"}, &process{w: w, host: w.hosts[1], name: "B1"})
			require.ErrorContains(t, w.failed, c.says)
		})
	}
}

// One who was paused may not know yet what has happened; a moment after it woke it must.
func TestOracleGivesAMomentAfterAPause(t *testing.T) {
	w := newWorld(Config{Seed: 1}.withDefaults())
	a, b := &process{w: w, host: w.hosts[0], name: "A1"}, &process{w: w, host: w.hosts[1], name: "B1"}
	id := task.ID{Subtopology: 1}
	a.host.woke = w.now.Add(time.Second)
	w.oracle.running(a, id)
	w.oracle.running(b, id)
	require.NoError(t, w.failed)
	w.now = w.now.Add(3 * time.Second)
	w.oracle.committed(modelbroker.Commit{MemberID: "of nobody here", TopicPartition: task.TopicPartition{Topic: topicWords}})
	require.Error(t, w.failed)
}

func TestResultSaysHowToPlayItAgain(t *testing.T) {
	r := Result{Seed: 17, Err: errors.New("lost"), Faults: []string{"a crash"}, Trace: []string{"a line"}}
	for _, part := range []string{"seed 17: lost", "a crash", "a line", "-sim.seed=17"} {
		require.Contains(t, r.String(), part)
	}
	require.Contains(t, Run(Config{Seed: 1}).String(), "seed 1: held")
}

func TestTrace(t *testing.T) {
	play := func() (lines []string) {
		Run(Config{Seed: 3, Trace: func(line string) { lines = append(lines, line) }})
		return lines
	}
	lines := play()
	require.Greater(t, len(lines), 1000)
	require.Equal(t, lines, play())
}
