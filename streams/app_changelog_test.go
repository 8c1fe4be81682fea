package streams_test

import (
	"encoding/binary"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// A broker may not have heard of a changelog that was made through another one. Its id is waited for: a store without it would belong to any
// topic.
func TestAppWaitsForTheIDsOfTheTopicsThatItMakes(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	changelog := b.name("ids-word-counts-changelog")
	cluster := b.embedded.Cluster()
	var hidden, joins atomic.Int64
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := req.(*kmsg.MetadataRequest)
		made := slices.ContainsFunc(asked.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic != nil && *t.Topic == changelog })
		if !made || hidden.Load() == 5 {
			return nil, nil, false
		}
		if cluster.TopicInfo(changelog) == nil {
			return nil, nil, false
		}
		hidden.Add(1)
		return b.unknownTopics(asked), nil, true
	})
	cluster.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if hidden.Load() < 5 {
			joins.Add(1)
		}
		return nil, nil, false
	})
	c := b.config("ids")
	r := b.run(countWords(in, to), c)
	b.values(in, 0, "a")
	r.until("the count", func() bool { return b.counts(to)["a"] == 1 })
	require.NoError(t, r.end())
	require.EqualValues(t, 5, hidden.Load())
	require.Zero(t, joins.Load(), "nothing begins without the ids")

	dir, err := pebblestore.OpenDir(c.StateDir, c.ApplicationID, pebblestore.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	tasks, err := dir.DB.Tasks()
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	ts, err := dir.DB.Open(tasks[0].ID, []statestore.Spec{{Name: "word-counts", Changelog: [16]byte{1}}})
	require.NoError(t, err)
	require.True(t, ts.Stale(0), "the id was stored")
	require.NoError(t, ts.Close())
}

// unknownTopics answers that no topic is known.
func (b *bed) unknownTopics(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	res := req.ResponseKind().(*kmsg.MetadataResponse)
	host, port, err := net.SplitHostPort(b.addrs[0])
	require.NoError(b.t, err)
	n, err := strconv.Atoi(port)
	require.NoError(b.t, err)
	broker := kmsg.NewMetadataResponseBroker()
	broker.Host, broker.Port = host, int32(n)
	res.Brokers = append(res.Brokers, broker)
	for _, t := range req.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = t.Topic, kerr.UnknownTopicOrPartition.Code
		res.Topics = append(res.Topics, topic)
	}
	return res
}
