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
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// found answers the request for the coordinator.
func found(a MemberAction) group.Event {
	return group.CoordinatorFound{Req: a.Action.(group.FindCoordinator).Req, Addr: "h:1"}
}

// Any history of fetches, seeks, pauses, assignments, brokers that move, and commits that are refused for a while or answered late: of each life
// records come once and in order but for what a seek does, none is skipped, nothing is returned while it is paused, and what is committed
// is never beyond what was returned or sought.
func TestAnyHistoryReturnsEachRecordOnceAndCommitsNoFurther(t *testing.T) {
	for seed := range seeds(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(t, seed)
			for range 300 {
				h.something()
			}
			h.finish()
		})
	}
}

// seeds are fewer in the short tests, which run under the race detector.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 15
	}
	return n
}

type history struct {
	*world
	rng     *rand.Rand
	next    map[task.TopicPartition]int64 // the offset that has to come next
	top     map[task.TopicPartition]int64 // the furthest that may be committed
	paused  map[task.TopicPartition]bool
	open    map[uint64]bool // commits without an answer
	late    []Arrived       // batches that come when their source is gone
	current map[task.TopicPartition]bool
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		world: newWorld(t, Config{CommitInterval: time.Second}), rng: rand.New(rand.NewPCG(seed, 1)), next: map[task.TopicPartition]int64{},
		top: map[task.TopicPartition]int64{}, paused: map[task.TopicPartition]bool{}, open: map[uint64]bool{}, current: map[task.TopicPartition]bool{},
	}
	for n := range int32(3) {
		h.ends[at(n)] = 50
		h.assign(at(n), Start{At: Exact})
	}
	h.step(Begin{})
	return h
}

func (h *history) assign(tp task.TopicPartition, s Start) {
	h.step(Assign{Starts: map[task.TopicPartition]Start{tp: s}})
	h.current[tp] = true
	h.paused[tp] = false
	switch s.At {
	case Exact:
		h.next[tp] = s.Value
		h.top[tp] = max(h.top[tp], s.Value)
	default:
		h.next[tp] = -1 // the next one says
	}
}

func (h *history) something() {
	tp := at(int32(h.rng.IntN(3)))
	switch h.rng.IntN(14) {
	case 0, 1, 2:
		h.poll(1 + h.rng.IntN(7))
	case 3, 4, 5:
		for src := range maps.Keys(h.sources) {
			if src.TopicPartition == tp {
				h.deliver(src, 1+h.rng.Int64N(6))
			}
		}
	case 6:
		h.answer()
	case 7:
		to := h.rng.Int64N(h.ends[tp])
		h.step(Seek{Part: tp, Start: Start{At: Exact, Value: to}})
		if h.current[tp] {
			h.next[tp], h.top[tp] = to, max(h.top[tp], to)
		}
	case 8:
		off := h.rng.IntN(2) == 0
		h.step(Pause{Parts: []task.TopicPartition{tp}, Off: off})
		if h.current[tp] {
			h.paused[tp] = !off
		}
	case 9:
		if h.rng.IntN(2) == 0 {
			h.step(Unassign{Parts: []task.TopicPartition{tp}})
			h.current[tp] = false
		} else {
			h.assign(tp, []Start{{At: Exact, Value: h.rng.Int64N(50)}, {At: Committed}, {At: Earliest}}[h.rng.IntN(3)])
		}
	case 10:
		h.open[h.commit(nil)] = true
	case 11:
		h.refuse = []kcode.Code{kcode.None, kcode.RebalanceInProgress, kcode.NotCoordinator}[h.rng.IntN(3)]
		h.later(time.Duration(h.rng.IntN(1500)) * time.Millisecond)
	case 12:
		for src, from := range h.sources { // it moves to another broker
			if src.TopicPartition == tp {
				delete(h.sources, src)
				h.step(PartMoved{Lost: engine.PartLost{Source: src, Offset: from}})
				break
			}
		}
	case 13:
		for src, from := range h.sources { // what is on the way when it is paused
			if src.TopicPartition == tp && from < h.ends[tp] {
				h.step(Pause{Parts: []task.TopicPartition{tp}})
				b := &task.Batch{From: from, Next: from + 1, HighWatermark: h.ends[tp], Records: []task.Record{{Offset: from}}}
				h.sources[src] = b.Next
				h.step(Arrived{Deliver: engine.Deliver{Source: src, Batch: b}})
				h.step(Pause{Parts: []task.TopicPartition{tp}, Off: true})
				h.paused[tp] = false
				break
			}
		}
	}
	for tp, kept := range h.kept {
		require.LessOrEqual(h.t, kept, h.top[tp], "%v is committed beyond what was returned", tp)
	}
}

func (h *history) poll(n int) {
	for _, x := range h.take(n) {
		require.True(h.t, h.current[x.tp], "%v is not assigned", x.tp)
		require.False(h.t, h.paused[x.tp], "%v is paused", x.tp)
		if h.next[x.tp] >= 0 {
			require.Equal(h.t, h.next[x.tp], x.offset, "%v", x.tp)
		}
		h.next[x.tp] = x.offset + 1
		h.top[x.tp] = max(h.top[x.tp], x.offset+1)
	}
}

// finish reads everything to its end and commits.
func (h *history) finish() {
	for n := range int32(3) {
		h.assign(at(n), Start{At: Exact, Value: h.rng.Int64N(50)})
	}
	for range 50 {
		h.later(time.Second)
		h.settle()
		for _, src := range slices.Collect(maps.Keys(h.sources)) {
			h.deliver(src, 20)
		}
		h.poll(100)
	}
	for n := range int32(3) {
		require.Equal(h.t, h.ends[at(n)], h.next[at(n)], "all of %v is read", at(n))
	}
	last := h.commit(nil)
	h.settle()
	require.NoError(h.t, h.answers[last])
	for n := range int32(3) {
		require.Equal(h.t, h.ends[at(n)], h.kept[at(n)])
	}
	for id := range h.open {
		require.Contains(h.t, h.answers, id, "every commit has an outcome")
	}
	require.True(h.t, slices.IsSorted(h.order), "in the order of the calls: %v", h.order)
	h.step(Close{})
	h.settle()
	require.True(h.t, h.ended)
}
