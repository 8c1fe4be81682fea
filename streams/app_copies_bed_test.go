package streams_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// countKeys counts the records of each key, in one subtopology: a task for each partition of the input.
func countKeys(in, out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.String).GroupByKey().Count("key-counts").ToStream().To(out)
	return b
}

// preload gives each partition so many keys of its own, once.
func (b *bed) preload(topic string, partitions, keys int) map[string]int64 {
	b.t.Helper()
	truth := map[string]int64{}
	for p := range partitions {
		rs := make([]task.OutRecord, keys)
		for i := range rs {
			k := fmt.Sprintf("old-%d-%d", p, i)
			truth[k]++
			rs[i] = task.OutRecord{Key: []byte(k), Value: []byte("v"), Timestamp: time.Now().UnixMilli()}
		}
		b.put(topic, int32(p), rs...)
	}
	return truth
}

// plus adds what a load has written by key.
func plus(truth map[string]int64, l *load) map[string]int64 {
	l.end()
	for k, n := range l.keys {
		truth[k] += n
	}
	return truth
}

// countedOnce waits for all counts, and requires that none is too high.
func (b *bed) countedOnce(out string, truth map[string]int64) {
	b.t.Helper()
	got := b.settled(out, func(got map[string]int64) bool { return covers(got, truth) })
	require.Empty(b.t, diff(truth, got), "counted more than once")
}

// witness writes down what an application tells its listener.
type witness struct {
	mu         sync.Mutex
	rebalances []streams.RebalanceInfo
	restores   []streams.RestoreProgress // that have ended
	learned    []streams.TaskID
	promoted   map[streams.TaskID]int64
	cleaned    []streams.TaskID
	runs       []streams.TaskID
}

func (w *witness) listen(l *streams.Listener) {
	w.promoted = map[streams.TaskID]int64{}
	note := func(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }
	l.Rebalanced = func(i streams.RebalanceInfo) { note(func() { w.rebalances = append(w.rebalances, i) }) }
	l.Assigned = func(tasks []streams.TaskID) { note(func() { w.runs = slices.Clone(tasks) }) }
	l.Learned = func(id streams.TaskID, _ int64, _ time.Duration) { note(func() { w.learned = append(w.learned, id) }) }
	l.Promoted = func(id streams.TaskID, lacked int64, _ time.Duration) { note(func() { w.promoted[id] = lacked }) }
	l.Cleaned = func(id streams.TaskID) { note(func() { w.cleaned = append(w.cleaned, id) }) }
	l.Restore = func(p streams.RestoreProgress) {
		if p.Done {
			note(func() { w.restores = append(w.restores, p) })
		}
	}
}

// assigned are the tasks that run there now.
func (w *witness) assigned() []streams.TaskID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

// restored is how many records stores were restored with, in one role.
func (w *witness) restored(role streams.Role) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.restores {
		if p.Role == role {
			n += p.Records
		}
	}
	return n
}

// paused are the tasks that stood still there, those that moved on and those that did not.
func (w *witness) paused() (moved, kept []streams.Pause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rebalances {
		for _, p := range r.Paused {
			if p.Moved {
				moved = append(moved, p)
			} else {
				kept = append(kept, p)
			}
		}
	}
	return moved, kept
}

func (w *witness) heardLearned() []streams.TaskID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := slices.Clone(w.learned)
	slices.SortFunc(ids, streams.TaskID.Compare)
	return slices.Compact(ids)
}

func (w *witness) heardPromoted() map[streams.TaskID]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[streams.TaskID]int64{}
	for id, n := range w.promoted {
		out[id] = n
	}
	return out
}

// member starts one more process of an application that counts keys, inside of this one.
func (b *bed) member(app, name, in, out string, change ...func(*streams.Config)) (*running, *witness) {
	b.t.Helper()
	c := b.config(app)
	c.ClientID, c.AcceptableLag = name, 1
	w := &witness{}
	w.listen(&c.Listener)
	for _, f := range change {
		f(&c)
	}
	return b.run(countKeys(in, out), c), w
}

// partitionIDs are the tasks of the one subtopology, in order.
func partitionIDs(n int) (ids []streams.TaskID) {
	for p := range n {
		ids = append(ids, streams.TaskID{Partition: int32(p)})
	}
	return ids
}

// one is a record of now.
func (b *bed) one(key, value string) task.OutRecord {
	return task.OutRecord{Key: []byte(key), Value: []byte(value), Timestamp: time.Now().UnixMilli()}
}

// learnGate holds up bulk writes to stores, and so everything that is learned, until it is open.
type learnGate struct {
	once sync.Once
	up   chan struct{}
}

func newLearnGate() *learnGate { return &learnGate{up: make(chan struct{})} }

func (g *learnGate) open() { g.once.Do(func() { close(g.up) }) }

// hold puts the gate before the stores of an application.
func (g *learnGate) hold(c *shell.Config) { c.Backend = gatedBackend{c.Backend, g} }

type gatedBackend struct {
	statestore.Backend
	gate *learnGate
}

func (b gatedBackend) Open(id statestore.TaskID, stores []statestore.Spec) (statestore.TaskStores, error) {
	ts, err := b.Backend.Open(id, stores)
	return gatedStores{ts, b.gate}, err
}

type gatedStores struct {
	statestore.TaskStores
	gate *learnGate
}

func (s gatedStores) Ingest(b *statestore.Batch) error {
	<-s.gate.up
	return s.TaskStores.Ingest(b)
}

// gatedMember is a member that learns nothing while the gate is shut.
func (b *bed) gatedMember(g *learnGate, app, name, in, out string, change ...func(*streams.Config)) (*running, *witness) {
	b.t.Helper()
	c := b.config(app)
	c.ClientID, c.AcceptableLag = name, 1
	w := &witness{}
	w.listen(&c.Listener)
	for _, f := range change {
		f(&c)
	}
	return b.run(countKeys(in, out), c, g.hold), w
}
