package consume

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// world plays the brokers for a machine with partitions by hand: logs, committed offsets, and answers that come when the test says so.
type world struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	pending []Action // that were not answered yet
	ends    map[task.TopicPartition]int64
	first   map[task.TopicPartition]int64
	kept    map[task.TopicPartition]int64
	said    map[task.TopicPartition]string // the metadata of what is kept
	sources map[engine.FetchSource]int64   // what is fetched, and from where
	pauses  map[engine.FetchSource]int     // 1: paused, 2: and what was on the way has come
	answers map[uint64]error
	order   []uint64
	refuse  kcode.Code // of the next commit
	took    []taken
	ids     uint64
	ended   bool
	missing bool
	id      retry.TopicID // of the topic
}

type taken struct {
	tp       task.TopicPartition
	offset   int64
	life     uint64
	replayed bool
}

func newWorld(t *testing.T, cfg Config) *world {
	cfg.Manual = true
	cfg.Group.Group = "g"
	w := &world{
		t: t, m: New(cfg), now: time.Unix(1000, 0), ends: map[task.TopicPartition]int64{}, first: map[task.TopicPartition]int64{},
		kept: map[task.TopicPartition]int64{}, said: map[task.TopicPartition]string{}, sources: map[engine.FetchSource]int64{}, pauses: map[engine.FetchSource]int{},
		answers: map[uint64]error{},
	}
	return w
}

func at(n int32) task.TopicPartition { return task.TopicPartition{Topic: "t", Partition: n} }

func (w *world) step(ev Event) {
	w.carry(w.m.Step(w.now, ev))
}

func (w *world) carry(acts []Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case RefreshMetadata, FetchOffsets, ListOffsets, CommitOffsets, MemberAction:
			w.pending = append(w.pending, a)
		case Fetch:
			switch ev := a.Event.(type) {
			case engine.FetchAdd:
				w.sources[ev.Source] = ev.Offset
				w.pauses[ev.Source] = 0
			case engine.FetchRemove:
				delete(w.sources, ev.Source)
			case engine.FetchPause:
				w.pauses[ev.Source] = 0
				if !ev.Off {
					w.pauses[ev.Source] = 1
				}
			}
		case Answer:
			_, twice := w.answers[a.ID]
			require.False(w.t, twice, "two answers to commit %d", a.ID)
			w.answers[a.ID] = a.Err
			w.order = append(w.order, a.ID)
		case Ended:
			w.ended = true
		}
	}
}

// answer answers the oldest request, and says whether there was one.
func (w *world) answer() bool {
	if len(w.pending) == 0 {
		return false
	}
	a := w.pending[0]
	w.pending = w.pending[1:]
	switch a := a.(type) {
	case RefreshMetadata:
		ev := Metadata{Topics: map[string]Topic{}}
		if !w.missing {
			ev.Topics["t"] = Topic{ID: w.id, Leaders: make([]engine.Leader, 16)}
		}
		w.step(ev)
	case FetchOffsets:
		ev := OffsetsFetched{Request: a.Request, Offsets: map[task.TopicPartition]engine.CommittedOffset{}}
		for _, tp := range a.Parts {
			ev.Offsets[tp] = engine.CommittedOffset{Offset: -1}
			if kept, has := w.kept[tp]; has {
				ev.Offsets[tp] = engine.CommittedOffset{Offset: kept, Metadata: w.said[tp]}
			}
		}
		w.step(ev)
	case ListOffsets:
		ev := OffsetsListed{Request: a.Request, Offsets: map[Ask]int64{}}
		for _, ask := range a.Asks {
			switch ask.Start.At {
			case Earliest:
				ev.Offsets[ask] = w.first[ask.TopicPartition]
			case Latest:
				ev.Offsets[ask] = w.ends[ask.TopicPartition]
			default:
				ev.Offsets[ask] = min(ask.Start.Value, w.ends[ask.TopicPartition])
			}
		}
		w.step(ev)
	case CommitOffsets:
		ev := OffsetsCommitted{Request: a.Request, Codes: map[task.TopicPartition]kcode.Code{}}
		for _, o := range a.Offsets {
			ev.Codes[o.TopicPartition] = w.refuse
			if w.refuse == kcode.None {
				w.kept[o.TopicPartition], w.said[o.TopicPartition] = o.Offset, o.Metadata
			}
		}
		w.refuse = kcode.None
		w.step(ev)
	case MemberAction:
		w.step(Member{Event: found(a)})
	}
	return true
}

// settle answers everything.
func (w *world) settle() {
	for range 100 {
		if !w.answer() {
			return
		}
	}
	require.Fail(w.t, "there is no end to it", "%v", w.pending)
}

// later lets time pass.
func (w *world) later(d time.Duration) {
	w.now = w.now.Add(d)
	w.step(Tick{})
}

// deliver brings up to n records of a source.
func (w *world) deliver(src engine.FetchSource, n int64) {
	from, fetched := w.sources[src]
	end := w.ends[src.TopicPartition]
	if !fetched || from >= end || w.pauses[src] == 2 {
		return
	}
	if w.pauses[src] == 1 {
		w.pauses[src] = 2
	}
	b := &task.Batch{From: from, Next: min(from+n, end), Bytes: int(n), HighWatermark: end}
	for o := from; o < b.Next; o++ {
		b.Records = append(b.Records, task.Record{Offset: o, Timestamp: o, Value: []byte(fmt.Sprint(o))})
	}
	w.sources[src] = b.Next
	w.step(Arrived{Deliver: engine.Deliver{Source: src, Batch: b}})
}

// take takes up to n records as a Poll does.
func (w *world) take(n int) (out []taken) {
	w.step(Polled{})
	_, acts := w.m.Take(w.now, make([]task.Record, n), func(c Chunk) {
		for _, r := range c.Records {
			out = append(out, taken{c.TopicPartition, r.Offset, c.Life, c.Replayed})
		}
	})
	w.carry(acts)
	w.took = append(w.took, out...)
	return out
}

func (w *world) commit(offsets map[task.TopicPartition]int64) uint64 {
	w.ids++
	w.step(Commit{ID: w.ids, Offsets: offsets})
	return w.ids
}
