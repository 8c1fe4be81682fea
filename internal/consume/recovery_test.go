package consume

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// begin begins anew with partitions at what is committed, as a process does that takes the place of another.
func (w *world) begin(cfg Config, parts ...task.TopicPartition) {
	cfg.Manual, cfg.Group.Group = true, "g"
	w.m, w.ended, w.pending = New(cfg), false, nil
	clear(w.sources)
	clear(w.answers)
	w.order = nil
	starts := map[task.TopicPartition]Start{}
	for _, tp := range parts {
		starts[tp] = Start{}
	}
	w.step(Assign{Starts: starts})
	w.step(Begin{})
}

// committed is what the commit of a partition says.
func (w *world) committed(tp task.TopicPartition) (int64, retry.Metadata) {
	m, err := retry.ParseMetadata(w.said[tp], w.kept[tp], w.ends[tp])
	require.NoError(w.t, err)
	return w.kept[tp], m
}

// keeps is what has to be committed.
func (w *world) keeps(offset, main int64, running bool, holes ...retry.Run) {
	w.t.Helper()
	at, m := w.committed(task.TopicPartition{Topic: "t"})
	require.Equal(w.t, offset, at)
	require.Equal(w.t, main, m.Main)
	require.Equal(w.t, running, m.Running)
	require.Equal(w.t, holes, slices.Clone(m.Holes))
}

// source is what is fetched of a partition on one of its paths.
func (w *world) source(tp task.TopicPartition, purpose engine.Purpose) engine.FetchSource {
	w.t.Helper()
	for src := range w.sources {
		if src.TopicPartition == tp && src.Index == int(purpose) {
			return src
		}
	}
	require.Fail(w.t, "it is not fetched")
	return engine.FetchSource{}
}

// split are the offsets of the records that were replayed, and of those that were not.
func split(recs []taken) (replayed, fresh []int64) {
	for _, r := range recs {
		if r.replayed {
			replayed = append(replayed, r.offset)
		} else {
			fresh = append(fresh, r.offset)
		}
	}
	return replayed, fresh
}

func offsets(from, to int64) (out []int64) {
	for o := from; o < to; o++ {
		out = append(out, o)
	}
	return out
}

func TestRecoveryGoesOnAtTheEndAndReplaysWhatIsLeftBehind(t *testing.T) {
	cfg := Config{RecoverAbove: 10, NoOffset: engine.ResetEarliest}
	run := func(from, to int64) retry.Run { return retry.Run{From: from, To: to} }
	w := newWorld(t, cfg)
	w.ends[at(0)] = 70
	w.begin(cfg, at(0))
	w.settle()
	require.NotContains(t, w.kept, at(0), "nothing is committed where nothing was")
	w.deliver(w.source(at(0), engine.Input), 100)
	require.Len(t, w.take(100), 70)
	w.commit(nil)
	w.settle()
	w.keeps(70, 70, true)

	// It dies, and is away for 50 records.
	w.ends[at(0)] = 120
	w.begin(cfg, at(0))
	for len(w.sources) == 0 {
		require.True(t, w.answer())
	}
	w.ends[at(0)] = 140
	w.deliver(w.source(at(0), engine.Input), 20)
	require.Empty(t, w.take(8), "the gap is not committed yet")
	w.settle()
	w.keeps(70, 120, true, run(70, 120))
	w.deliver(w.source(at(0), engine.Recover), 1000)
	replayed, fresh := split(w.take(8))
	require.Equal(t, offsets(120, 126), fresh)
	require.Equal(t, offsets(70, 72), replayed, "a quarter")
	replayed, fresh = split(w.take(1))
	require.Empty(t, replayed)
	require.Equal(t, offsets(126, 127), fresh)
	require.EqualValues(t, 48, w.m.Lags()[0].Behind)
	w.commit(nil)
	w.settle()
	w.keeps(72, 127, true, run(72, 120))
	replayed, fresh = split(w.take(16)) // 12 new ones, and 4
	require.Equal(t, offsets(127, 139), fresh)
	require.Equal(t, offsets(72, 76), replayed)
	require.Len(t, w.take(4), 2, "the last of the new ones, and one more: a quarter")
	replayed, fresh = split(w.take(8))
	require.Empty(t, fresh)
	require.Equal(t, offsets(77, 85), replayed, "all of it when there is nothing new")
	w.step(Commit{ID: 100, Offsets: map[task.TopicPartition]int64{}, Replayed: map[task.TopicPartition]int64{at(0): 80}})
	w.settle()
	w.keeps(80, 127, true, run(80, 120))

	// It dies again: what the main path had done is not in the gap, and what is done is not returned again.
	w.ends[at(0)] = 150
	w.begin(cfg, at(0))
	w.settle()
	w.keeps(80, 150, true, run(80, 120), run(127, 150))
	w.deliver(w.source(at(0), engine.Recover), 20)
	replayed, _ = split(w.take(10))
	require.Equal(t, offsets(80, 90), replayed)
	w.commit(nil)
	w.settle()

	// A proper end: the gap goes on, and nothing is added to it.
	w.step(Close{})
	w.settle()
	require.True(t, w.ended)
	w.keeps(90, 150, false, run(90, 120), run(127, 150))
	w.ends[at(0)] = 200
	w.begin(cfg, at(0))
	w.settle()
	w.keeps(90, 150, true, run(90, 120), run(127, 150))
	status := w.m.Recoveries(w.now)
	require.Len(t, status, 1)
	require.EqualValues(t, 53, status[0].Left)

	// The log is shorter by now.
	w.first[at(0)] = 100
	src := w.source(at(0), engine.Recover)
	delete(w.sources, src)
	w.step(PartStopped{Failed: engine.PartFailed{Source: src, Offset: 90, Code: kcode.OffsetOutOfRange}})
	w.settle()
	require.Contains(t, w.lost(), retry.Run{From: 90, To: 100})
	w.deliver(w.source(at(0), engine.Recover), 100)
	replayed, _ = split(w.take(100))
	require.Equal(t, append(offsets(100, 120), offsets(127, 150)...), replayed)
	require.NotContains(t, slices.Collect(maps.Keys(w.sources)), w.m.parts[at(0)].source(&w.m.parts[at(0)].gap.path), "nothing more of it is fetched")
	w.deliver(w.source(at(0), engine.Input), 100)
	require.Len(t, w.take(100), 50)
	w.commit(nil)
	w.settle()
	w.keeps(200, 200, true)
	require.Equal(t, engine.RecoveryLost, w.m.Recoveries(w.now)[0].State)
	w.step(Close{})
	w.settle()
	w.keeps(200, 200, false)
}

// lost are the runs that were told to be lost.
func (w *world) lost() (out []retry.Run) {
	for t := w.m.NextTell(); t != nil; t = w.m.NextTell() {
		switch t := t.(type) {
		case TellRangeLost:
			out = append(out, t.Run)
		case TellReset:
			out = append(out, retry.Run{From: t.From, To: t.To})
		}
	}
	return out
}

func TestRecoveryAfterAProperEndOrWithFewRecordsIsInOrder(t *testing.T) {
	cfg := Config{RecoverAbove: 50}
	for _, running := range []bool{true, false} {
		w := newWorld(t, cfg)
		said := retry.NewMetadata(70)
		said.Running = running
		w.kept[at(0)] = 70
		w.said[at(0)], _ = said.Encode(70)
		w.ends[at(0)] = 121
		if running {
			w.ends[at(0)] = 120 // it is one less than it takes
		}
		w.begin(cfg, at(0))
		w.settle()
		require.Empty(t, w.m.Recoveries(w.now))
		w.deliver(w.source(at(0), engine.Input), 3)
		_, fresh := split(w.take(3))
		require.Equal(t, offsets(70, 73), fresh)
		w.keeps(70, 70, true)
	}
}

// What is left of a gap goes on however near the end of the log is: what is done behind it is not returned again.
func TestRecoveryOfWhatIsLeftOfAGap(t *testing.T) {
	cfg := Config{RecoverAbove: 50}
	w := newWorld(t, cfg)
	said := retry.NewMetadata(70)
	said.Main, said.Holes = 80, []retry.Run{{From: 70, To: 72}}
	w.kept[at(0)], w.ends[at(0)] = 70, 85
	w.said[at(0)], _ = said.Encode(70)
	w.begin(cfg, at(0))
	w.settle()
	w.deliver(w.source(at(0), engine.Input), 10)
	w.deliver(w.source(at(0), engine.Recover), 10)
	replayed, fresh := split(w.take(100))
	require.Equal(t, offsets(70, 72), replayed)
	require.Equal(t, offsets(80, 85), fresh)
	w.commit(nil)
	w.settle()
	w.keeps(85, 85, true)
}

// crashedWorld has a partition that was left behind at 70 by somebody who has not ended well, and that has come to 120 since.
func crashedWorld(t *testing.T, cfg Config) *world {
	w := newWorld(t, cfg)
	said := retry.NewMetadata(70)
	said.Running = true
	w.kept[at(0)], w.ends[at(0)] = 70, 120
	w.said[at(0)], _ = said.Encode(70)
	return w
}

// An end that comes while the end of the log is still looked for is a proper one, too.
func TestEndBeforeTheGapIsKnown(t *testing.T) {
	cfg := Config{RecoverAbove: 10}
	w := newWorld(t, cfg)
	left, none := retry.NewMetadata(100), retry.NewMetadata(5)
	left.Holes = []retry.Run{{From: 70, To: 100}}
	w.kept[at(0)], w.kept[at(1)] = 70, 5
	w.ends[at(0)], w.ends[at(1)] = 120, 5
	w.said[at(0)], _ = left.Encode(70)
	w.said[at(1)], _ = none.Encode(5)
	w.begin(cfg, at(0), at(1))
	for !slices.ContainsFunc(w.pending, func(a Action) bool { _, is := a.(ListOffsets); return is }) {
		require.True(t, w.answer())
	}
	w.step(Close{})
	require.False(t, w.ended, "the other partition waits for a commit")
	w.settle()
	require.True(t, w.ended)
	w.keeps(70, 100, false, left.Holes...)
}

func TestRecoveryEndsWithASeek(t *testing.T) {
	cfg := Config{RecoverAbove: 10}
	w := crashedWorld(t, cfg)
	w.begin(cfg, at(0))
	w.settle()
	w.deliver(w.source(at(0), engine.Recover), 2)
	require.Len(t, w.take(2), 2)
	w.step(Seek{Part: at(0), Start: Start{At: Exact, Value: 90}})
	w.step(Commit{ID: 99, Offsets: map[task.TopicPartition]int64{}, Replayed: map[task.TopicPartition]int64{at(0): 72}})
	require.Error(t, w.answers[99], "a record of the gap that is no more")
	require.Len(t, w.sources, 1)
	w.deliver(w.source(at(0), engine.Input), 5)
	_, fresh := split(w.take(5))
	require.Equal(t, offsets(90, 95), fresh)
	w.commit(nil)
	w.settle()
	w.keeps(95, 95, true)
}

func TestRecoveryWaitsForAGapThatCannotBeCommitted(t *testing.T) {
	cfg := Config{RecoverAbove: 10}
	w := crashedWorld(t, cfg)
	w.refuse = kcode.TopicAuthorizationFailed
	w.begin(cfg, at(0))
	w.settle()
	var refused *CommitRefusedError
	require.ErrorAs(t, w.m.Fault(true), &refused)
	require.ErrorAs(t, w.m.Fault(true), &refused, "by each Poll that finds nothing else")
	require.Empty(t, w.sources)
}

// Any history of crashes, proper ends, retention, and commits that are refused, carried out and not answered: every record is returned or told to be
// lost, none that was committed comes again in a later life, none twice in one, and no commit says that a record is done which the program has
// not said is done.
func TestRecoveryOfAnyHistory(t *testing.T) {
	for seed := range seeds(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newCrashes(t, seed)
			for range 400 {
				h.something()
			}
			h.finish()
		})
	}
}

type crashes struct {
	*world
	cfg  Config
	rng  *rand.Rand
	life []taken                        // that were returned since the last end
	past map[taken]bool                 // that the last commit before this life says are done
	said map[taken]bool                 // that the program has said are done
	seen map[taken]bool                 // returned, or lost
	told map[task.TopicPartition]string // the commits that were looked at
}

func newCrashes(t *testing.T, seed uint64) *crashes {
	h := &crashes{
		cfg: Config{RecoverAbove: 20, NoOffset: engine.ResetEarliest, OutOfRange: engine.ResetEarliest}, rng: rand.New(rand.NewPCG(seed, 3)),
		past: map[taken]bool{}, said: map[taken]bool{}, seen: map[taken]bool{},
	}
	if seed%2 == 0 {
		h.cfg.CommitInterval = time.Second
	}
	h.world = newWorld(t, h.cfg)
	h.ends[at(0)], h.ends[at(1)] = 10, 0
	h.begins()
	return h
}

func key(tp task.TopicPartition, offset int64) taken { return taken{tp: tp, offset: offset} }

// begins begins a life.
func (h *crashes) begins() {
	h.life, h.past = nil, h.done()
	h.begin(h.cfg, at(0), at(1))
}

// done is what commits say is done.
func (h *crashes) done() map[taken]bool {
	out := map[taken]bool{}
	for tp := range h.kept {
		offset, m := h.committed(tp)
		for o := range m.Main {
			if o < offset || !slices.ContainsFunc(m.Holes, func(r retry.Run) bool { return r.From <= o && o < r.To }) {
				out[key(tp, o)] = true
			}
		}
	}
	return out
}

func (h *crashes) something() {
	tp := at(int32(h.rng.IntN(2)))
	switch h.rng.IntN(16) {
	case 0, 1, 2:
		h.poll(1 + h.rng.IntN(12))
	case 3, 4, 5:
		h.fetch(tp, 15)
	case 6, 7, 8:
		h.answer()
	case 9:
		h.ends[tp] += h.rng.Int64N(30)
	case 10:
		h.says(len(h.life))
		h.commit(nil)
	case 11:
		if n := len(h.life); n > 0 {
			h.commitRecord(h.life[h.rng.IntN(n)])
		}
	case 12:
		h.refuse = []kcode.Code{kcode.None, kcode.CoordinatorLoadInProgress, kcode.NotCoordinator}[h.rng.IntN(3)]
		h.later(time.Duration(h.rng.IntN(1500)) * time.Millisecond)
	case 13:
		off := h.rng.IntN(3) > 0
		h.step(Pause{Parts: []task.TopicPartition{tp}, Off: off})
	case 14:
		switch h.rng.IntN(6) {
		case 0, 1: // what is on the way may have been carried out
			if h.rng.IntN(2) == 0 {
				h.answer()
			}
			h.ends[tp] += h.rng.Int64N(80)
			h.begins()
		case 2:
			h.close()
			h.ends[tp] += h.rng.Int64N(80)
			h.begins()
		}
	case 15:
		if h.rng.IntN(8) == 0 { // retention
			h.first[tp] += h.rng.Int64N(h.ends[tp] - h.first[tp] + 1)
		}
	}
	h.notes()
}

// notes looks at what is told and committed.
func (h *crashes) notes() {
	for t := h.m.NextTell(); t != nil; t = h.m.NextTell() {
		switch t := t.(type) {
		case TellRangeLost:
			h.loses(t.Part, t.Run)
		case TellReset:
			h.loses(t.Part, retry.Run{From: t.From, To: t.To})
		}
	}
	if maps.Equal(h.told, h.world.said) {
		return
	}
	h.told = maps.Clone(h.world.said)
	for x := range h.done() {
		require.True(h.t, h.said[x] || x.offset < h.first[x.tp], "%v is committed and was not done", x)
	}
}

func (h *crashes) loses(tp task.TopicPartition, r retry.Run) {
	for o := r.From; o < r.To; o++ {
		h.seen[key(tp, o)], h.said[key(tp, o)] = true, true
		require.Less(h.t, o, h.first[tp], "it is there")
	}
}

func (h *crashes) fetch(tp task.TopicPartition, most int64) {
	for _, src := range slices.Collect(maps.Keys(h.sources)) {
		if src.TopicPartition != tp || h.rng.IntN(3) == 0 {
			continue
		}
		if from := h.sources[src]; from < h.first[tp] {
			delete(h.sources, src)
			h.step(PartStopped{Failed: engine.PartFailed{Source: src, Offset: from, Code: kcode.OffsetOutOfRange}})
			continue
		}
		h.deliver(src, 1+h.rng.Int64N(most))
	}
}

func (h *crashes) poll(n int) {
	if h.cfg.CommitInterval > 0 {
		h.says(len(h.life))
	}
	for _, x := range h.take(n) {
		k := key(x.tp, x.offset)
		require.False(h.t, h.past[k], "%v was done", k)
		require.False(h.t, slices.ContainsFunc(h.life, func(y taken) bool { return y.tp == x.tp && y.offset == x.offset }), "%v comes twice", k)
		h.seen[k] = true
		h.life = append(h.life, x)
	}
}

// says: the program says that the first of what it was given is done.
func (h *crashes) says(n int) {
	for _, x := range h.life[:n] {
		h.said[key(x.tp, x.offset)] = true
	}
}

func (h *crashes) commitRecord(x taken) {
	for _, y := range h.life {
		if y.tp == x.tp && y.replayed == x.replayed && y.offset <= x.offset {
			h.said[key(y.tp, y.offset)] = true
		}
	}
	h.ids++
	ev := Commit{ID: h.ids, Offsets: map[task.TopicPartition]int64{}, Lives: map[task.TopicPartition]uint64{x.tp: x.life}}
	if x.replayed {
		ev.Replayed = map[task.TopicPartition]int64{x.tp: x.offset + 1}
	} else {
		ev.Offsets[x.tp] = x.offset + 1
	}
	h.step(ev)
}

func (h *crashes) close() {
	began := map[task.TopicPartition]bool{}
	for tp := range h.kept {
		s, _ := h.m.Standing(tp)
		began[tp] = s.Committed >= 0
	}
	h.step(Close{})
	for range 200 {
		h.later(time.Second)
		h.settle()
		h.notes()
	}
	require.True(h.t, h.ended)
	for tp := range h.kept {
		_, m := h.committed(tp)
		require.False(h.t, m.Running && began[tp], "the end was a proper one")
	}
}

// finish returns all that there is, and commits it.
func (h *crashes) finish() {
	h.begins()
	for range 60 {
		h.later(time.Second)
		h.settle()
		h.notes()
		h.fetch(at(0), 100)
		h.fetch(at(1), 100)
		h.poll(500)
	}
	h.says(len(h.life))
	last := h.commit(nil)
	for range 5 {
		h.later(time.Second)
		h.settle()
	}
	require.Contains(h.t, h.answers, last)
	require.NoError(h.t, h.answers[last])
	h.notes()
	for n := range int32(2) {
		for o := range h.ends[at(n)] {
			require.True(h.t, h.seen[key(at(n), o)] || o < h.first[at(n)], "%v of %v was never returned", o, at(n))
		}
	}
	for _, s := range h.m.Recoveries(h.now) {
		require.True(h.t, s.Closed, "%+v", s)
	}
}
