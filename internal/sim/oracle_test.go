package sim

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// What must hold is only worth something if it is noticed when it does not.
func TestOracleNotices(t *testing.T) {
	id := task.ID{Subtopology: 1}
	words := task.TopicPartition{Topic: topicWords}
	produced := func(w *world, p *process, tp task.TopicPartition, records ...task.OutRecord) {
		end := int64(len(w.oracle.logs[tp]))
		w.oracle.appended(&virtual.Call{Link: &virtual.Link{World: w.World, Process: p.Process}, Sent: w.Now}, modelbroker.ProduceBatch{TopicPartition: tp, Epoch: int16(w.oracle.changes(tp).grant), Records: records}, end)
	}
	origin := func(offset int64) retry.Origin { return retry.Origin{Topic: topicWords, Offset: offset} }
	row := func(ids ...int) []byte {
		b := counted(nil, ids[0], 120)
		for _, id := range ids[1:] {
			b = counted(b, id, 120)
		}
		return b
	}
	memory := func(w *world, id task.ID) statestore.TaskStores {
		ts, err := w.hosts[0].Disk.Open(id, w.specs())
		require.NoError(t, err)
		return ts
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
			w.oracle.running(a, id)
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1, 2)})
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
		}, "with 1 records to the changelog, which had one with 2"},
		{"a row goes away", func(w *world, a, _ *process) {
			w.oracle.running(a, id)
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w")})
		}, "with 0 records to the changelog, which had one with 1"},
		{"an output shrinks", func(w *world, a, _ *process) {
			w.oracle.running(a, id)
			produced(w, a, task.TopicPartition{Topic: topicOut}, task.OutRecord{Key: []byte("w"), Value: row(1, 2)})
			produced(w, a, task.TopicPartition{Topic: topicOut}, task.OutRecord{Key: []byte("w"), Value: row(1)})
		}, "A1 puts out that w was seen 1 times, after 2"},
		{"a stranger's batch behind the first of the owner", func(w *world, a, b *process) {
			w.oracle.running(b, id)
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
			require.NoError(t, w.failed, "before it, nothing keeps it out")
			produced(w, b, counts(0), task.OutRecord{Key: []byte("w"), Value: row(2)})
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
		}, "a late batch of A1 went into app-counts-changelog-0 at 2, behind the first one of B1, who has the task now"},
		{"a batch of an owner's earlier time", func(w *world, a, _ *process) {
			w.oracle.changes(counts(0)).granted(engine.Tenure{TopicPartition: counts(0), Generation: 4})
			w.oracle.running(a, id)
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(2)})
			w.oracle.appended(&virtual.Call{Link: &virtual.Link{World: w.World, Process: a.Process}, Sent: w.Now}, modelbroker.ProduceBatch{TopicPartition: counts(0), Epoch: 3, Records: []task.OutRecord{{Key: []byte("w"), Value: row(1)}}}, 1)
		}, "behind the first one of A1, who has the task now"},
		{"an owner that is refused", func(w *world, a, _ *process) {
			w.oracle.running(a, id)
			w.oracle.answer(&virtual.Call{Link: &virtual.Link{World: w.World, Process: a.Process}, Req: modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{{TopicPartition: counts(0)}}}}, modelbroker.ProduceResponse{
				Parts: []modelbroker.ProducedPart{{TopicPartition: counts(0), Code: kcode.InvalidProducerEpoch}},
			})
		}, "A1 is refused in app-counts-changelog-0, though it has the task"},
		{"a store that misses what lies before its position", func(w *world, a, _ *process) {
			ts := memory(w, id)
			w.oracle.logs[counts(0)] = []written{{record: true, key: "w", value: row(1)}}
			require.NoError(t, ts.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Position: 0, Changes: []statestore.Change{{Key: []byte("v"), Value: row(1)}}}}}))
			w.oracle.restartable("A1", id, ts)
		}, "the store of task 1_0 at 0 and what follows do not make what its changelog says"},
		{"a task that does not see what it has sealed", func(w *world, a, _ *process) {
			owner, err := task.New(task.Config{ID: id, Spec: a.topology()[1], Stores: readers(memory(w, id), len(w.specs())), Positions: []int64{0}})
			require.NoError(t, err)
			r := &taskRun{Task: &virtual.Task{Owner: owner}, p: a, key: virtual.LifeKey{Task: id}, view: map[string][]byte{}}
			w.oracle.sealed(r, &task.Sealed{Stores: []task.SealedStore{{Changes: []statestore.Change{{Key: []byte("w1"), Value: row(1, 2)}}}}})
		}, "A1: task 1_0 has a count of 0 for w1 and has sealed 2"},
		{"a store that is not its changelog", func(w *world, a, _ *process) {
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(1)})
			ts, err := w.hosts[0].Disk.Open(id, w.specs())
			require.NoError(t, err)
			require.NoError(t, ts.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{
				Position: 1, Changes: []statestore.Change{{Key: []byte("w"), Value: row(1, 1)}},
			}}}))
			w.oracle.restored(a, id, ts)
		}, "is not that of its changelog: count 2, not 1"},
		{"a store that has more than its changelog", func(w *world, a, _ *process) {
			w.oracle.running(a, id)
			ts, err := w.hosts[0].Disk.Open(id, w.specs())
			require.NoError(t, err)
			require.NoError(t, ts.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Changes: []statestore.Change{{Key: []byte("w"), Value: row(1)}}}}}))
			w.oracle.applied(a, engine.Apply{Task: id, Batch: &statestore.Batch{Stores: []statestore.StoreBatch{{Store: storeCounts}}}}, ts)
		}, "has 1 rows, its changelog makes 0"},
		{"a commit passes a record that is neither counted nor put aside", func(w *world, a, _ *process) {
			w.oracle.members["m"] = a
			produced(w, a, words, task.OutRecord{Value: recordValue(7)})
			produced(w, a, parkedAt(0), task.OutRecord{Key: retry.AppendPayloadKey(nil, origin(0)), Value: []byte{1}})
			w.oracle.committed(modelbroker.Commit{MemberID: "m", TopicPartition: words, Before: -1, Offset: 1})
		}, "record 7 at 0 left no trace"},
		{"what was put aside is deleted before it is counted", func(w *world, a, _ *process) {
			w.oracle.running(a, id)
			produced(w, a, words, task.OutRecord{Value: recordValue(7)})
			produced(w, a, parkedAt(0), task.OutRecord{Key: retry.AppendEntryKey(nil, origin(0))})
		}, "deletes that record 7 at 0 is put aside, and it left no trace"},
		{"what was put aside is deleted before its count is put out", func(w *world, a, _ *process) {
			w.oracle.running(a, id)
			produced(w, a, words, task.OutRecord{Value: recordValue(7)})
			produced(w, a, counts(0), task.OutRecord{Key: []byte("w"), Value: row(7)})
			produced(w, a, parkedAt(0), task.OutRecord{Key: retry.AppendEntryKey(nil, origin(0))})
		}, "deletes that record 7 at 0 is put aside, and it left no trace"},
		{"a stranger's row is taken back, and a commit says that it is done", func(w *world, a, b *process) {
			w.oracle.members["m"] = b
			w.oracle.running(b, id)
			produced(w, b, words, task.OutRecord{Value: recordValue(7)})
			w.oracle.commits[words] = commit{offset: 1}
			produced(w, a, parkedAt(0), task.OutRecord{Key: retry.AppendEntryKey(nil, origin(0)), Value: []byte{1}})
			produced(w, b, parkedAt(0), task.OutRecord{Key: retry.AppendEntryKey(nil, origin(0))})
		}, "deletes that record 7 at 0 is put aside, and it left no trace"},
		{"a dead letter of a record that can be counted", func(w *world, a, _ *process) {
			w.failing = failing{fates: make([]fate, 120), set: retry.Settings{Then: retry.EndDeadLetter}}
			produced(w, a, words, task.OutRecord{Value: recordValue(7)})
			l := retry.Letter{Origin: origin(0), Class: "x"}
			var headers []task.Header
			for _, h := range l.AppendHeaders(nil, nil) {
				headers = append(headers, task.Header(h))
			}
			produced(w, a, task.TopicPartition{Topic: topicDead}, task.OutRecord{Value: recordValue(7), Headers: headers})
		}, "A1 writes a dead letter of record 7, which can be counted"},
		{"a dead letter of nobody", func(w *world, a, _ *process) {
			produced(w, a, task.TopicPartition{Topic: topicDead}, task.OutRecord{Value: recordValue(7)})
		}, "A1 writes a dead letter of record 7, which says that it is of"},
		{"a word out of its order", func(w *world, a, _ *process) {
			c := newCounting(&paths{}, nil)
			c.last["w"] = 3
			w.failing.set.Mode = retry.ModeKeyOrdered
			w.oracle.counts(a, counterEnv(t, w, a), c, "w")
		}, "A1: task 1_0 counts w at -1 after that at 3"},
		{"a record twice in one life", func(w *world, a, _ *process) {
			c := newCounting(&paths{}, nil)
			c.done[-1] = true
			w.oracle.failed.tried(a, counterEnv(t, w, a), c, false)
		}, "A1: task 1_0 takes offset -1, which it has counted"},
		{"a record from before the beginning that was not put aside", func(w *world, a, _ *process) {
			w.oracle.failed.tried(a, counterEnv(t, w, a), newCounting(&paths{from: 4}, nil), false)
		}, "A1: task 1_0 takes offset -1, begins at 4, and it was not put aside"},
		{"a worker takes a record that its task has counted", func(w *world, a, _ *process) {
			c := newCounting(&paths{}, nil)
			c.done[-1] = true
			w.oracle.running(a, id)
			_, _ = a.tries(counterEnv(t, w, a), c, true, 7)
		}, "A1: task 1_0 takes offset -1, which it has counted"},
		{"a worker takes a record of a task that somebody else runs", func(w *world, a, b *process) {
			w.oracle.running(b, id)
			_, _ = a.tries(counterEnv(t, w, a), newCounting(&paths{from: -1}, nil), true, 7)
		}, "A1 and B1 both run task 1_0"},
		{"a range is lost that is still there", func(w *world, a, _ *process) {
			in := task.TopicPartition{Topic: topicIn}
			a.runs[virtual.LifeKey{Task: task.ID{}}] = &taskRun{paths: &paths{main: -1, gap: -1}}
			produced(w, a, in, task.OutRecord{Value: recordValue(7)})
			w.oracle.noticed(a, engine.Notice{Kind: engine.NoticeRangeLost, Part: in, Start: 0, End: 1})
		}, "says that in-0 has lost 0 to 1, and it begins at 0"},
		{"a range is lost that was taken", func(w *world, a, _ *process) {
			in := task.TopicPartition{Topic: topicIn}
			a.runs[virtual.LifeKey{Task: task.ID{}}] = &taskRun{paths: &paths{main: 0, gap: -1}}
			w.oracle.logs[in] = []written{{record: true, value: recordValue(7)}}
			w.Broker.EndTransaction(w.Now, in)
			w.Broker.Trim(w.Now, in, 1)
			w.oracle.noticed(a, engine.Notice{Kind: engine.NoticeRangeLost, Part: in, Start: 0, End: 1})
		}, "has lost offset 0 of in-0, which it has taken"},
		{"a produce request for a task of somebody else", func(w *world, a, b *process) {
			w.oracle.running(b, id)
			w.oracle.sent(a, modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{{TopicPartition: counts(0)}}})
		}, "A1 sends records of task 1_0, which B1 runs"},
		{"a purge of what is not committed", func(w *world, a, _ *process) {
			w.oracle.request(&virtual.Call{Link: &virtual.Link{Process: a.Process}}, modelbroker.DeleteRecordsRequest{Parts: []modelbroker.DeleteRecordsPart{{TopicPartition: words, Before: 3}}})
		}, "below 3, committed is 0"},
		{"a generation twice", func(w *world, a, _ *process) {
			w.oracle.noticed(a, engine.Notice{Kind: engine.NoticeAssigned, Generation: 2})
			w.oracle.noticed(a, engine.Notice{Kind: engine.NoticeAssigned, Generation: 2})
		}, "applies generation 2 after 2"},
		{"a task that is to stay is paused", func(w *world, a, _ *process) {
			w.oracle.pauses(a, id)
		}, "A1 pauses task 1_0, which is to stay"},
		{"a task is paused for one who is not ready", func(w *world, a, _ *process) {
			a.plan.Marks = []assignor.Mark{{Task: id, Receiver: "b"}}
			w.oracle.rows[counts(0)] = boardRow{member: "c"}
			w.oracle.pauses(a, id)
		}, "A1 pauses task 1_0, for which b is not known to be ready"},
		{"a task is paused for nothing", func(w *world, a, b *process) {
			b.heard = map[int32]bool{4: true}
			w.oracle.rounds.current = &plan{}
			w.oracle.rounds.paused(a, id, pause{since: w.Now, generation: 4, receiver: b}, true)
		}, "A1 paused task 1_0 for nothing"},
		{"a copy is opened anew when it is made active", func(w *world, a, _ *process) {
			a.promoting = map[task.ID]uint64{id: 3}
			w.oracle.starts(a, engine.StartTask{Task: id, Stores: 4})
		}, "A1 opens the store of task 1_0 anew to make it active"},
		{"a state in a plan is deleted", func(w *world, a, _ *process) {
			a.plan = applied{generation: 1, PlanData: assignor.PlanData{Standbys: []assignor.Copy{{Task: id}}}}
			w.oracle.drops(a, id)
		}, "A1 deletes the state of task 1_0, which its plan has"},
		{"a state is restored by one who is to run it", func(w *world, a, _ *process) {
			w.oracle.rounds.current = &plan{}
			w.oracle.rounds.restores(a, engine.Notice{Task: id, Part: counts(0), End: 500})
		}, "A1 restores task 1_0 from 0 to 500 to run it"},
		{"a round that was asked for changes nothing", func(w *world, _, _ *process) {
			w.oracle.rounds.current = &plan{}
			w.oracle.rounds.joins("task 1_0 is learned")
			w.oracle.rounds.plan()
		}, "a round changes nothing, and was asked for because task 1_0 is learned"},
		{"an application that ends over a record in the middle of which nobody has died", func(w *world, a, b *process) {
			a.memberID, a.host.p = "a", a
			w.oracle.names("a", words, retry.Metadata{Running: true, Suspect: 7}) // so that its own death would count
			w.oracle.names("b", words, retry.Metadata{Running: true, Suspect: 7})
			a.host.exited(&task.Error{Topic: topicWords, Offset: 7, Kind: task.KindCrash, Attempts: 2, Err: errFlaky})
		}, "A1 ended"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(Config{Seed: 1}.withDefaults())
			a := idle(w.hosts[0])
			b := idle(w.hosts[1])
			a.Engine = running(t)
			c.play(w, a, b)
			require.ErrorContains(t, w.failed, c.says)
		})
	}
}

// Whoever has named a record and then one behind it, or none, has come through it.
func TestOracleCountsDeaths(t *testing.T) {
	w := newWorld(Config{Seed: 1}.withDefaults())
	p := idle(w.hosts[0])
	p.spec, p.memberID = p.topology(), "p"
	words := task.TopicPartition{Topic: topicWords}
	least := p.spec[1].Failure.Settings().Crashes
	over := func(deaths int) bool {
		return w.oracle.diedOver(p, &task.Error{Task: task.ID{Subtopology: 1}, Topic: topicWords, Offset: 7, Kind: task.KindCrash, Attempts: deaths})
	}
	in := retry.Metadata{Running: true, Suspect: 7}
	for n := range least + 1 {
		w.oracle.names(string(rune('a'+n)), words, in)
	}
	w.oracle.names("p", words, in)
	require.True(t, over(least))
	require.True(t, over(least+1))
	require.False(t, over(least+2), "so many have not died")
	require.False(t, over(least-1), "so many do not suffice")
	require.False(t, w.oracle.diedOver(p, errFlaky))
	w.oracle.names("a", words, retry.Metadata{Running: true, Suspect: -1})
	require.True(t, over(least))
	require.False(t, over(least+1))
}

// One who was paused may not know yet what has happened; a moment after it woke it must.
func TestOracleGivesAMomentAfterAPause(t *testing.T) {
	w := newWorld(Config{Seed: 1}.withDefaults())
	a, b := idle(w.hosts[0]), idle(w.hosts[1])
	id := task.ID{Subtopology: 1}
	a.host.woke = w.Now.Add(time.Second)
	w.oracle.running(a, id)
	w.oracle.running(b, id)
	require.NoError(t, w.failed)
	w.Now = w.Now.Add(3 * time.Second)
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

// The report of a seed that failed is what a person has to find the bug with.
func TestReport(t *testing.T) {
	w := newWorld(Config{Seed: 7, Instances: 2, Brokers: 3, Parts: 2}.withDefaults())
	a, b := idle(w.hosts[0]), idle(w.hosts[1])
	at := func(ms int64) { w.Now = epoch.Add(time.Duration(ms) * time.Millisecond) }
	id, tp := task.ID{Subtopology: 1, Partition: 1}, task.TopicPartition{Topic: topicWords, Partition: 1}
	to := func(p *process, node int32) *virtual.Link {
		return &virtual.Link{World: w.World, Process: p.Process, Node: node}
	}

	at(1200)
	w.traceNotice(a, engine.Notice{Kind: engine.NoticeAssigned, Generation: 3, Tasks: []task.ID{{Partition: 0}, id}, Text: "a rebalance is under way"})
	w.note(a, "starts {t} at {b}", id, 1, 40)
	w.oracle.running(a, id)
	at(1500)
	batch := modelbroker.ProduceBatch{TopicPartition: counts(1), Epoch: 3, FirstSequence: 0, Records: make([]task.OutRecord, 2)}
	w.traceMessage(to(a, 2), virtual.Sent, modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{batch}})
	at(1503)
	w.traceMessage(to(a, 2), virtual.Lost, modelbroker.ProduceResponse{Parts: []modelbroker.ProducedPart{{TopicPartition: counts(1), BaseOffset: 17}}})
	at(2000)
	w.fault("leader of %v moves to %d", counts(1), 0)
	at(2100)
	w.traceMessage(to(a, 2), virtual.Got, modelbroker.ProduceResponse{Parts: []modelbroker.ProducedPart{{TopicPartition: counts(1), Code: kcode.NotLeaderOrFollower}}})
	w.traceMessage(to(b, 0), virtual.Got, modelbroker.HeartbeatResponse{Code: kcode.RebalanceInProgress})
	w.traceMessage(to(b, 1), virtual.Sent, modelbroker.OffsetCommitRequest{Generation: 4, Offsets: []task.InputOffset{{TopicPartition: tp, Offset: 42}}})
	at(2101)
	w.trace.TaskAction(w.scene(a), virtual.LifeKey{Task: id}, task.Seal{Sealed: &task.Sealed{Seq: 5, Offsets: []task.InputOffset{{TopicPartition: tp, Offset: 44}}}})
	w.oracle.running(b, id)

	if *update {
		require.NoError(t, os.WriteFile("testdata/report.golden", []byte(w.result().String()), 0o644))
	}
	want, err := os.ReadFile("testdata/report.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), w.result().String())
}

func TestTrace(t *testing.T) {
	play := func() (lines []string) {
		Run(Config{Seed: 3, Trace: func(line string) { lines = append(lines, line) }})
		return lines
	}
	lines := play()
	require.Greater(t, len(lines), 500)
	require.Equal(t, lines, play())
}

// running is an engine that has begun and is not about to end.
func running(t *testing.T) *engine.Engine {
	e := engine.New(engine.Config{})
	e.Step(epoch, engine.Start{})
	e.Step(epoch, engine.TopicsReady{})
	require.Equal(t, engine.Rebalancing, e.State())
	return e
}

// idle is the first process of a host, of which nothing is done by itself.
func idle(h *host) *process {
	h.started = 1
	p := h.newProcess()
	p.Process = h.w.NewProcess(virtual.ProcessConfig{Host: &h.Host, Watch: p})
	return p
}

// counterEnv is that of a task that counts and runs no record.
func counterEnv(t *testing.T, w *world, p *process) *task.Env {
	ts, err := w.hosts[0].Disk.Open(task.ID{Subtopology: 1}, w.specs())
	require.NoError(t, err)
	owner, err := task.New(task.Config{ID: task.ID{Subtopology: 1}, Spec: p.topology()[1], Stores: readers(ts, len(w.specs())), Positions: []int64{0}})
	require.NoError(t, err)
	return owner.Env()
}

func readers(s statestore.TaskStores, n int) (all []statestore.Reader) {
	for i := range n {
		all = append(all, s.Reader(i))
	}
	return all
}
