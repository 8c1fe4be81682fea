package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

var (
	testID = ID{Subtopology: 0, Partition: 1}
	epoch0 = time.UnixMilli(1_000_000)
)

// rec builds an input record. A "-" is null.
func rec(offset int64, key, value string, ts int64, h ...Header) Record {
	return Record{Offset: offset, Timestamp: ts, Key: raw(key), Value: raw(value), Headers: h}
}

func raw(s string) []byte {
	if s == "-" {
		return nil
	}
	return []byte(s)
}

func shown(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

func batch(next int64, rs ...Record) *Batch {
	b := &Batch{Records: rs, Next: next}
	for i := range rs {
		b.Bytes += 20 + len(rs[i].Key) + len(rs[i].Value)
	}
	return b
}

// show prints an output as key:value@time, with its headers.
func show(r OutRecord) string {
	s := fmt.Sprintf("%s:%s@%d", shown(r.Key), shown(r.Value), r.Timestamp)
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %s=%s", h.Key, shown(h.Value))
	}
	return s
}

// world is what is around an owner: a sender, a committer and a store that do their work when told to, or at once.
type world struct {
	t      require.TestingT
	mem    *statestore.Memory
	stores statestore.TaskStores
	owner  *Owner
	now    time.Time

	holdAcks, holdCommits bool
	unacked               []uint64
	seals                 []*Sealed
	sent                  []*Effects

	out       map[string][]string // by topic-partition
	committed map[string]InputOffset
	commits   []string
	consumed  map[int]int
	actions   []string
	failed    error
	wake      time.Time
	called    []Call
	handed    []*Item
	answered  *Answer

	above    int64            // Config.Recover of the engine
	ends     map[string]int64 // of the logs, where the engine would ask
	replayed []Replay
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, now: epoch0, mem: newMemory()}
	w.start(cfg)
	return w
}

func newMemory() *statestore.Memory { return statestore.NewMemory() }

// start makes the owner, anew after an end. Rows and committed offsets are kept.
func (w *world) start(cfg Config) {
	if w.out == nil {
		w.out, w.committed, w.consumed = map[string][]string{}, map[string]InputOffset{}, map[int]int{}
	}
	var specs []statestore.Spec
	for _, s := range cfg.Spec.Stores {
		specs = append(specs, s.Spec)
	}
	if w.stores != nil {
		require.NoError(w.t, w.stores.Close())
	}
	var err error
	w.stores, err = w.mem.Open(testID, specs)
	require.NoError(w.t, err)
	cfg.ID, cfg.Epoch = testID, 7
	cfg.StreamTime, cfg.Positions, cfg.Stores, cfg.Committed = -1, nil, nil, nil
	for i := range specs {
		cfg.Stores = append(cfg.Stores, w.stores.Reader(i))
	}
	for _, in := range cfg.Spec.Inputs {
		c := w.committed[in.Topic]
		cfg.Positions = append(cfg.Positions, c.Offset)
		m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
		require.NoError(w.t, err)
		cfg.Committed = append(cfg.Committed, m)
		cfg.StreamTime = max(cfg.StreamTime, m.StreamTime)
	}
	w.split(&cfg)
	if cfg.Partitions == nil {
		cfg.Partitions = func(topic string) int32 {
			if topic == "nowhere" {
				return 0
			}
			return 2
		}
	}
	w.unacked, w.seals, w.failed = nil, nil, nil
	w.owner, err = New(cfg)
	require.NoError(w.t, err)
}

// split lets the task begin with two paths as the engine would.
func (w *world) split(cfg *Config) {
	cfg.Splits = nil
	if w.above == 0 {
		return
	}
	cfg.Splits = make([]retry.Split, len(cfg.Spec.Inputs))
	for i, in := range cfg.Spec.Inputs {
		m := &cfg.Committed[i]
		if s, ok := m.Split(cfg.Positions[i], w.ends[in.Topic], w.above); ok {
			cfg.Splits[i], cfg.Positions[i] = s, s.Main
		}
	}
}

func (w *world) step(ev Event) {
	w.actions = w.actions[:0]
	w.carry(w.owner.Step(w.now, ev))
	for !w.holdAcks && len(w.unacked) > 0 {
		w.ack()
	}
	for !w.holdCommits && len(w.seals) > 0 && len(w.unacked) == 0 {
		w.commit(nil)
	}
}

func (w *world) ack() {
	seq := w.unacked[0]
	w.unacked = w.unacked[1:]
	w.carry(w.owner.Step(w.now, Acked{seq}))
}

func (w *world) commit(err error) {
	s := w.seals[0]
	w.seals = nil
	if err == nil {
		w.apply(s)
	}
	w.carry(w.owner.Step(w.now, Committed{err}))
	for !w.holdAcks && len(w.unacked) > 0 {
		w.ack()
	}
}

func (w *world) apply(s *Sealed) {
	line := ""
	for _, o := range s.Offsets {
		w.committed[o.Topic] = o
		line += fmt.Sprintf("%s@%d ", o.Topic, o.Offset)
	}
	w.commits = append(w.commits, fmt.Sprintf("%sst=%d n=%d", line, s.StreamTime, s.Records))
	var b statestore.Batch
	for _, st := range s.Stores {
		b.Stores = append(b.Stores, statestore.StoreBatch{Store: st.Store, Changes: st.Changes, Position: -1})
	}
	require.NoError(w.t, w.stores.Apply(&b))
}

func (w *world) carry(actions []Action) {
	var follow []Action
	follow = append(follow, actions...)
	for _, a := range follow {
		w.actions = append(w.actions, fmt.Sprintf("%T", a)[len("task."):])
		switch a := a.(type) {
		case Send:
			require.Equal(w.t, testID, a.Task)
			require.EqualValues(w.t, 7, a.Epoch)
			w.unacked = append(w.unacked, a.Seq)
			w.sent = append(w.sent, a.Effects)
			total := 0
			for _, g := range a.Groups {
				require.NotEmpty(w.t, g.Refs)
				sum := 0
				for _, r := range g.Records() {
					w.out[g.To.String()] = append(w.out[g.To.String()], show(r))
					sum += recordOverhead + len(r.Key) + len(r.Value) + headerBytes(r.Headers)
				}
				require.Equal(w.t, sum, g.Bytes)
				total += sum
			}
			require.Equal(w.t, total, a.Effects.Bytes)
		case Seal:
			require.Empty(w.t, w.seals, "two seals outstanding")
			w.seals = append(w.seals, a.Sealed)
		case Consumed:
			w.consumed[a.Input] += a.Bytes
		case Failed:
			w.failed = a.Err
		case Wake:
			w.wake = a.At
		case Replayed:
			w.replayed = append(w.replayed, a.Replay)
		case Dispatch:
			w.handed = append(w.handed, a.Item)
		case Answer:
			w.answered = &a
		case Call:
			w.called = append(w.called, a)
		}
	}
}

// feed brings a batch of one input and lets the task work until it has nothing to do.
func (w *world) feed(input int, b *Batch) {
	w.step(Fetched{input, b})
	w.work()
}

func (w *world) work() {
	for w.owner.Runnable() {
		w.step(Work{Records: 100})
	}
}

func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	w.step(Tick{})
}

// rows reads a whole store as committed.
func (w *world) rows(store int) map[string]string {
	rows := map[string]string{}
	it := w.stores.Reader(store).Scan(nil, nil, false)
	for it.Next() {
		v := it.Row().Value
		if len(v) == 8 {
			rows[string(it.Key())] = fmt.Sprintf("%d@%d", binary.BigEndian.Uint64(v), it.Row().Timestamp)
		} else {
			rows[string(it.Key())] = fmt.Sprintf("%s@%d", v, it.Row().Timestamp)
		}
	}
	require.NoError(w.t, it.Close())
	return rows
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

var errBad = errors.New("bad value")

// mapSpec copies records of one topic to another. A value "bad" fails, "panic" panics, after the output is sent.
func mapSpec() *Spec {
	return &Spec{
		Inputs: []Input{{Topic: "in"}}, Dests: []Dest{{Topic: "out"}},
		Build: func(e *Env) (*Graph, error) {
			return &Graph{Inputs: []func(*Record){func(r *Record) {
				b := e.Tail()
				b = append(b, r.Key...)
				b = append(b, r.Value...)
				e.Send(0, -1, b, size(r.Key), size(r.Value), r.Timestamp, r.Headers)
				misbehave(e, "copy", r.Value)
			}}}, nil
		},
	}
}

func size(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

func misbehave(e *Env, node string, value []byte) {
	switch string(value) {
	case "bad":
		e.Fail(node, KindProcess, errBad)
	case "panic":
		panic(errBad)
	}
}

// countSpec counts records by key in a store with a changelog. The counts go to "out", per update or at commit.
func countSpec(atCommit bool) *Spec {
	return &Spec{
		Inputs: []Input{{Topic: "in"}}, Dests: []Dest{{Topic: "out"}},
		Stores: []Store{{Spec: statestore.Spec{Name: "counts"}, Changelog: "counts-changelog", KeepBefore: atCommit}},
		Build: func(e *Env) (*Graph, error) {
			c := &counter{e: e, store: e.Store(0), atCommit: atCommit}
			g := &Graph{Inputs: []func(*Record){c.process}}
			if atCommit {
				g.Tables = []Table{{Store: 0, Node: "counts", Emit: c.emit}}
			}
			return g, nil
		},
	}
}

type counter struct {
	e        *Env
	store    *statestore.Overlay
	atCommit bool
	buf      [8]byte
}

func (c *counter) process(r *Record) {
	if r.Key == nil {
		c.e.Dropped("null-key", 1)
		return
	}
	n, ts := uint64(1), r.Timestamp
	row, found, err := c.store.Get(r.Key)
	if err != nil {
		c.e.Fail("count", KindStore, err)
		return
	}
	if found {
		n += binary.BigEndian.Uint64(row.Value)
		ts = max(ts, row.Timestamp)
	}
	binary.BigEndian.PutUint64(c.buf[:], n)
	if err := c.store.Put(r.Key, c.buf[:], ts); err != nil {
		c.e.Fail("count", KindStore, err)
		return
	}
	if !c.atCommit {
		c.send(r.Key, n, ts)
	}
	misbehave(c.e, "count", r.Value)
}

func (c *counter) emit(key []byte, now statestore.Row, present bool, _ statestore.Row, _ bool) {
	c.send(key, binary.BigEndian.Uint64(now.Value), now.Timestamp)
	if string(key) == "poison" {
		c.e.Fail("out", KindEmit, errBad)
	}
}

func (c *counter) send(key []byte, n uint64, ts int64) {
	b := append(c.e.Tail(), key...)
	at := len(b)
	b = strconv.AppendUint(b, n, 10)
	c.e.Send(0, 0, b, len(key), len(b)-at, ts, nil)
}
