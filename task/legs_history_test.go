package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// shore is what outlives a task: the logs of all partitions, each of which gets what the task sends in its own time, and the committed offsets.
// Nothing else does: the stores of whoever comes next are what the changelogs say.
type shore struct {
	*flaky
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	cfg   Config
	now   time.Time
	input []Record
	logs  map[TopicPartition][]OutRecord
	done  InputOffset // of the input
	again InputOffset // of the redrive topic, in which there is nothing

	owner   *Owner
	stores  statestore.TaskStores
	lanes   map[TopicPartition][]sending
	unacked []uint64
	seal    *Sealed
	wake    time.Time
	fed     int
	lives   int
}

// sending is what a partition has not got yet.
type sending struct {
	seq     uint64
	records []OutRecord
}

func newShore(t *testing.T, seed uint64, p retry.Policy) *shore {
	f := newFlaky()
	s := &shore{
		flaky: f, t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, uint64(p.Settings().Mode))), cfg: Config{Spec: f.spec(p), CommitInterval: time.Hour, Announce: seed%2 == 0},
		now: epoch0, logs: map[TopicPartition][]OutRecord{},
	}
	offset := int64(0)
	for i := range 3 + s.rng.IntN(12) {
		v := fmt.Sprint("v", i)
		key := []string{"a", "b", "c", "-"}[s.rng.IntN(4)]
		s.input = append(s.input, rec(offset, key, v, 1000+offset))
		offset += 1 + int64(s.rng.IntN(2)) // with gaps
		switch s.rng.IntN(5) {
		case 0, 1:
			f.fails[v] = 1 + s.rng.IntN(2)
		case 2:
			f.fails[v] = -1
		}
	}
	return s
}

// begin makes the next owner, after an end at any moment.
func (s *shore) begin() {
	s.lives++
	s.lanes, s.unacked, s.seal, s.wake = map[TopicPartition][]sending{}, nil, nil, time.Time{}
	mem := newMemory()
	var specs []statestore.Spec
	for _, st := range s.cfg.Spec.Stores {
		specs = append(specs, st.Spec)
	}
	var err error
	s.stores, err = mem.Open(testID, specs)
	require.NoError(s.t, err)
	cfg := s.cfg
	cfg.ID, cfg.Epoch, cfg.StreamTime, cfg.Seed = testID, uint64(s.lives), -1, s.seed
	cfg.Partitions = func(string) int32 { return 2 }
	for i, st := range s.cfg.Spec.Stores {
		log := s.logs[TopicPartition{st.Changelog, testID.Partition}]
		b := statestore.StoreBatch{Store: i, Position: int64(len(log))}
		for _, r := range log {
			b.Changes = append(b.Changes, statestore.Change{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
		}
		require.NoError(s.t, s.stores.Ingest(&statestore.Batch{Stores: []statestore.StoreBatch{b}}))
		cfg.Stores = append(cfg.Stores, s.stores.Reader(i))
	}
	for _, c := range []InputOffset{s.done, s.again} {
		m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
		require.NoError(s.t, err)
		cfg.Positions, cfg.Committed, cfg.StreamTime = append(cfg.Positions, c.Offset), append(cfg.Committed, m), max(cfg.StreamTime, m.StreamTime)
	}
	s.fed = slices.IndexFunc(s.input, func(r Record) bool { return r.Offset >= s.done.Offset })
	if s.fed < 0 {
		s.fed = len(s.input)
	}
	s.owner, err = New(cfg)
	require.NoError(s.t, err)
	s.step(Tick{})
}

func (s *shore) step(ev Event) {
	for _, a := range append([]Action(nil), s.owner.Step(s.now, ev)...) {
		switch a := a.(type) {
		case Send:
			s.unacked = append(s.unacked, a.Seq)
			for _, g := range a.Groups {
				all := sending{seq: a.Seq}
				for _, r := range g.Records() {
					r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
					all.records = append(all.records, r)
				}
				s.lanes[g.To] = append(s.lanes[g.To], all)
			}
		case Seal:
			s.seal = a.Sealed
		case Wake:
			s.wake = a.At
		case Failed:
			require.NoError(s.t, a.Err, "seed %d", s.seed)
		}
	}
}

// write lets a partition get what is next for it.
func (s *shore) write() {
	var open []TopicPartition
	for tp, l := range s.lanes {
		if len(l) > 0 {
			open = append(open, tp)
		}
	}
	if len(open) == 0 {
		return
	}
	slices.SortFunc(open, TopicPartition.Compare)
	tp := open[s.rng.IntN(len(open))]
	next := &s.lanes[tp][0]
	n := 1 + s.rng.IntN(len(next.records)) // what is large goes in several batches
	s.logs[tp] = append(s.logs[tp], next.records[:n]...)
	if next.records = next.records[n:]; len(next.records) == 0 {
		s.lanes[tp] = s.lanes[tp][1:]
	}
}

// ack acknowledges what all partitions have.
func (s *shore) ack() {
	upTo := uint64(0)
	for _, seq := range s.unacked {
		for _, l := range s.lanes {
			if len(l) > 0 && l[0].seq <= seq {
				seq = 0
				break
			}
		}
		if seq == 0 {
			break
		}
		upTo = seq
	}
	if upTo == 0 {
		return
	}
	s.unacked = slices.DeleteFunc(s.unacked, func(seq uint64) bool { return seq <= upTo })
	s.step(Acked{Seq: upTo})
}

// commit commits what was sealed. The process may die before it hears of that.
func (s *shore) commit(heard bool) {
	if s.seal == nil || len(s.unacked) > 0 && s.unacked[0] <= s.seal.Seq {
		return
	}
	seal := s.seal
	s.seal = nil
	s.done, s.again = seal.Offsets[0], seal.Offsets[1]
	if !heard {
		s.begin()
		return
	}
	var b statestore.Batch
	for _, st := range seal.Stores {
		b.Stores = append(b.Stores, statestore.StoreBatch{Store: st.Store, Changes: st.Changes, Position: -1})
	}
	require.NoError(s.t, s.stores.Apply(&b))
	s.step(Committed{})
}

func (s *shore) feed() {
	if s.fed == len(s.input) {
		return
	}
	n := min(len(s.input), s.fed+1+s.rng.IntN(3))
	s.step(Fetched{0, batch(s.input[n-1].Offset+1, append([]Record(nil), s.input[s.fed:n]...)...)})
	s.fed = n
}

func (s *shore) work() {
	if s.owner.Runnable() {
		s.step(Work{Records: 1 + s.rng.IntN(3)})
	}
}

func (s *shore) pass() {
	if s.wake.After(s.now) && s.wake.Sub(s.now) < time.Minute {
		s.now = s.wake
	} else {
		s.now = s.now.Add(time.Millisecond)
	}
	s.step(Tick{})
}

// live is a life that ends anywhere.
func (s *shore) live() {
	s.begin()
	for range s.rng.IntN(80) {
		switch s.rng.IntN(9) {
		case 0:
			s.feed()
		case 1, 2:
			s.work()
		case 3, 4:
			s.write()
		case 5:
			s.ack()
		case 6:
			s.step(Commit{})
		case 7:
			s.commit(s.rng.IntN(8) > 0)
		default:
			s.pass()
		}
		s.gauges()
	}
}

// gauges: none is ever negative.
func (s *shore) gauges() {
	f := s.owner.Stats().Failures
	for _, n := range []int64{
		int64(f.Parked), int64(f.Due), int64(f.Running), int64(f.Inert), int64(f.Gates), int64(f.Deepest), f.Bytes, f.OldestDue, f.Width, f.Waits, int64(f.Newer), int64(f.Starts),
	} {
		require.GreaterOrEqual(s.t, n, int64(0), "seed %d: %+v", s.seed, f)
	}
	require.LessOrEqual(s.t, f.Due+f.Running+f.Inert, f.Parked, "seed %d: %+v", s.seed, f)
}

// finish is a life that comes to its end, and says whether it did.
func (s *shore) finish() bool {
	s.begin()
	end := s.input[len(s.input)-1].Offset + 1
	for range 3000 {
		s.feed()
		s.work()
		for range 10 {
			s.write()
		}
		s.ack()
		s.step(Commit{})
		s.commit(true)
		s.pass()
		if s.done.Offset == end && s.owner.Stats().Failures.Parked == 0 && !s.owner.t.Dirty() && len(s.unacked) == 0 {
			return true
		}
	}
	return false
}

func (s *shore) values(topic string) (values []string) {
	for p := range int32(2) {
		for _, r := range s.logs[TopicPartition{topic, p}] {
			values = append(values, string(r.Value))
		}
	}
	return values
}

// Whatever each partition has got when a process dies, in whatever step of its commits: no record is lost, none is stuck, and those of a key keep
// their order where keys are ordered. It is the task itself that is played here; in package retry it is the protocol alone.
func TestAnyHistoryOfLegsLosesNothing(t *testing.T) {
	const histories = 3000
	opts := []retry.Option{
		steady, retry.Backoff(time.Millisecond, 4*time.Millisecond), retry.Attempts(4), retry.ThenDeadLetter(), retry.NoBreaker(), retry.Crashes(1000),
	}
	for _, p := range []retry.Policy{retry.KeyOrdered(opts...), retry.Parallel(opts...)} {
		t.Run(p.Settings().Mode.String(), func(t *testing.T) {
			lives, dead, inert := 0, 0, 0
			for seed := range uint64(histories) {
				s := newShore(t, seed, p)
				for range s.rng.IntN(4) {
					s.live()
					inert += s.owner.Stats().Failures.Inert
				}
				require.True(t, s.finish(), "seed %d is stuck at %d: %+v", seed, s.done.Offset, s.owner.Stats().Failures)
				out, letters := s.values("out"), s.values("dlq")
				for _, r := range s.input {
					v := string(r.Value)
					require.True(t, slices.Contains(out, v) || slices.Contains(letters, v), "seed %d: %s is lost", seed, v)
					require.False(t, s.fails[v] < 0 && slices.Contains(out, v), "seed %d: %s always fails", seed, v)
				}
				if p.Settings().Mode == retry.ModeKeyOrdered {
					s.inOrder(out)
				}
				require.Empty(t, s.parkedRows(), "seed %d: what is done is deleted", seed)
				lives += s.lives
				dead += len(letters)
			}
			require.Greater(t, lives, 2*histories)
			require.Greater(t, dead, histories)
			require.Greater(t, inert, histories/20)
		})
	}
}

// parkedRows is what the changelog of the retry store holds.
func (s *shore) parkedRows() map[string]bool {
	rows := map[string]bool{}
	for _, r := range s.logs[TopicPartition{"in-retry", testID.Partition}] {
		if r.Value == nil {
			delete(rows, string(r.Key))
		} else {
			rows[string(r.Key)] = true
		}
	}
	return rows
}

// inOrder: the records of a key come out in their order, the first time.
func (s *shore) inOrder(out []string) {
	at := map[string]int{}
	for _, v := range out {
		if _, seen := at[v]; !seen {
			at[v] = len(at)
		}
	}
	last := map[string]string{}
	for _, r := range s.input {
		v, key := string(r.Value), string(r.Key)
		if _, came := at[v]; r.Key == nil || !came {
			continue
		}
		if before, is := last[key]; is {
			require.Less(s.t, at[before], at[v], "seed %d: %s before %s, in %v", s.seed, v, before, out)
		}
		last[key] = v
	}
}
