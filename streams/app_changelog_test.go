package streams_test

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// stored reads what an application that has ended has on disk of its one store.
func (b *bed) stored(c streams.Config, store string) (counts map[string]int64, position int64) {
	b.t.Helper()
	dir, err := pebblestore.OpenDir(c.StateDir, c.ApplicationID, pebblestore.Options{})
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, dir.Close()) }()
	tasks, err := dir.DB.Tasks()
	require.NoError(b.t, err)
	require.Len(b.t, tasks, 1)
	ts, err := dir.DB.Open(tasks[0].ID, []statestore.Spec{{Name: store, Ordered: true}})
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, ts.Close()) }()
	counts = map[string]int64{}
	it := ts.Reader(0).Scan(nil, nil, false)
	for it.Next() {
		counts[string(it.Key())] = int64(binary.BigEndian.Uint64(it.Row().Value))
	}
	require.NoError(b.t, it.Close())
	return counts, ts.Position(0)
}

// recreate deletes a topic and makes one of the same name with these counts in it.
func (b *bed) recreate(topic string, counts ...task.OutRecord) {
	b.t.Helper()
	require.NoError(b.t, b.client.DeleteTopic(b.ctx(), topic))
	require.Eventually(b.t, func() bool { return b.partitions(topic) == 0 }, 10*time.Second, 20*time.Millisecond)
	require.NoError(b.t, b.client.CreateTopic(b.ctx(), topic, 1, map[string]string{"cleanup.policy": "compact"}))
	b.put(topic, 0, counts...)
}

func countOf(word string, n int) task.OutRecord {
	return task.OutRecord{Key: []byte(word), Value: binary.BigEndian.AppendUint64(nil, uint64(n)), Timestamp: time.Now().UnixMilli()}
}

// wipes collects what the listener hears of stores that are thrown away.
type wipes struct {
	mu  sync.Mutex
	why []string
}

func (w *wipes) listen(_ streams.TaskID, topic string, _ int32, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why = append(w.why, topic+": "+reason)
}

// A changelog that was made anew, and that has grown past the position that is stored, is known by its id: no row of the old one is left.
func TestAppChangelogMadeAnewIsNoticedByItsID(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 1), b.topic("out", 1)
		changelog := b.name("anew-word-counts-changelog")
		const why = "the changelog is another topic now: it was deleted and made anew"
		heard := &wipes{}
		logged, logs := observer.New(zapcore.WarnLevel)
		c := b.config("anew")
		c.Listener.Wiped = heard.listen
		c.Log = zap.New(logged)

		b.values(in, 0, "a a b c")
		r := b.run(countWords(in, to), c)
		r.until("the counts", func() bool { return len(b.counts(to)) == 3 })
		require.NoError(t, r.end())
		old, position := b.stored(c, "word-counts")
		require.Equal(t, map[string]int64{"a": 2, "b": 1, "c": 1}, old)

		var anew []task.OutRecord
		for n := range int(position) + 20 {
			anew = append(anew, countOf([]string{"b", "x", "y"}[n%3], 100+n))
		}
		b.recreate(changelog, append(anew, task.OutRecord{Key: []byte("y"), Timestamp: time.Now().UnixMilli()})...)
		want := b.counts(changelog)
		require.Len(t, want, 2)

		r = b.run(countWords(in, to), c)
		r.ready()
		require.NoError(t, r.end())
		got, now := b.stored(c, "word-counts")
		require.Equal(t, want, got, "the store is the new changelog, and nothing else")
		require.Greater(t, now, position)
		require.Equal(t, []string{changelog + ": " + why}, heard.why)
		said := logs.FilterMessage("store does not fit its changelog, it is rebuilt").All()
		require.Len(t, said, 1)
		require.Equal(t, changelog, said[0].ContextMap()["topic"])
		require.Equal(t, why, said[0].ContextMap()["reason"])

		r = b.run(countWords(in, to), c)
		r.ready()
		before := len(b.all(to))
		b.values(in, 0, "a b y")
		r.until("new counts", func() bool { return len(b.all(to)) == before+3 })
		require.NoError(t, r.end())
		require.Len(t, heard.why, 1, "once")
		got, _ = b.stored(c, "word-counts")
		require.Equal(t, map[string]int64{"a": 1, "b": want["b"] + 1, "x": want["x"], "y": 1}, got)
		require.Equal(t, b.counts(changelog), got)
	})
}
