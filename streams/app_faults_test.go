package streams_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/streams"
)

// faultBed is a word count on three embedded brokers, under load, to which something happens.
type faultBed struct {
	*bed
	cluster *kfake.Cluster
	in, out string
	dir     string
	r       *running
	lost    atomic.Int64
	lines   *observer.ObservedLogs

	listener streams.Listener

	mu   sync.Mutex
	seen map[int16]int // requests by key
}

func newFaultBed(t *testing.T) *faultBed {
	e, err := broker.Start(broker.Options{Brokers: 3})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	f := &faultBed{bed: newBed(t, e.Addrs(), e), cluster: e.Cluster(), dir: t.TempDir(), seen: map[int16]int{}}
	f.in, f.out = f.topic("in", 3), f.topic("out", 3)
	f.cluster.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.mu.Lock()
		f.seen[req.Key()]++
		f.mu.Unlock()
		return nil, nil, false
	})
	return f
}

func (f *faultBed) requests() map[int16]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.seen)
}

func (f *faultBed) start() {
	f.t.Helper()
	c := f.config("count")
	c.StateDir, c.Listener = f.dir, f.listener
	c.Listener.Lost = func(string) { f.lost.Add(1) }
	core, lines := observer.New(zapcore.InfoLevel)
	f.lines = lines
	shown := c.Log.Core()
	c.Log = zap.New(zapcore.NewTee(core, shown))
	f.r = f.run(countWords(f.in, f.out), c, func(s *shell.Config) {
		s.Engine.PurgeEvery, s.Engine.RefreshEvery = 300*time.Millisecond, 300*time.Millisecond
	})
}

// ours reports whether a request is the application's and not that of the test's own client, which speaks newer versions.
func (f *faultBed) ours(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		return req.Version <= 8
	case *kmsg.FetchRequest:
		return req.Version <= 11
	case *kmsg.MetadataRequest:
		return req.Version < 13
	case *kmsg.InitProducerIDRequest:
		return req.Version <= 2
	}
	return true
}

// settlesExactly ends the load and waits until everything is counted, once.
func (f *faultBed) settlesExactly(l *load) {
	f.t.Helper()
	truth := l.end()
	f.r.until("ready again", f.r.app.Ready)
	got := f.settled(f.out, func(got map[string]int64) bool { return covers(got, truth) })
	if f.lost.Load() == 0 {
		require.True(f.t, maps.Equal(truth, got), "a record counts more than once though no lease was lost: %v", diff(truth, got))
	}
	require.NoError(f.t, f.r.end())
}

// saysLittle checks that an outage is a line and not a flood.
func (f *faultBed) saysLittle(took time.Duration) {
	f.t.Helper()
	said := map[string]int{}
	for _, e := range f.lines.FilterMessage("failed, trying again").All() {
		said[e.ContextMap()["what"].(string)]++
	}
	for what, n := range said {
		require.LessOrEqual(f.t, n, 1+int(took/(10*time.Second)), "%q is said again and again", what)
	}
}

// hold keeps a fault up until it has been met a few times, for half a second at least, and checks that it is not met in a hot loop.
func (f *faultBed) hold(fault kfake.Fault, release func()) {
	f.t.Helper()
	before, began := f.requests(), time.Now()
	fault.Count, fault.When = -1, f.ours
	h := f.cluster.Fault(fault)
	release()
	require.NoError(f.t, h.Wait(f.ctx(), 3), "%v of %v is not met", fault.Err, fault.Keys)
	time.Sleep(max(0, 500*time.Millisecond-time.Since(began))) // a window to count in
	hits := h.Hits()
	took := time.Since(began).Seconds()
	h.Remove()
	require.Less(f.t, float64(hits), 15+80*took, "%v of %v is met %d times in %.1f s", fault.Err, fault.Keys, hits, took)
	for key, n := range f.requests() {
		if bound := perSecond(key); float64(n-before[key]) > 30+bound*took {
			require.Failf(f.t, "hot loop", "%s: %d requests in %.1f s", kmsg.NameForKey(key), n-before[key], took)
		}
	}
}

// perSecond is how many requests of a kind may be sent in a second, by three connections of each plane and the test's own client.
func perSecond(key int16) float64 {
	switch kmsg.Key(key) {
	case kmsg.Produce, kmsg.Fetch:
		return 1000
	case kmsg.OffsetCommit, kmsg.Heartbeat, kmsg.ApiVersions, kmsg.Metadata:
		return 60
	}
	return 30
}

func TestAppSurvivesErrorsOfBrokers(t *testing.T) {
	t.Parallel()
	type row struct {
		key      kmsg.Key
		starting bool // the fault is there when the application starts
		topLevel bool
		errs     []*kerr.Error
	}
	coordinator := []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.UnknownServerError}
	leader := []*kerr.Error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.KafkaStorageError,
		kerr.UnknownTopicOrPartition, kerr.OffsetNotAvailable, kerr.UnknownServerError, kerr.RequestTimedOut}
	for _, tt := range []row{
		{key: kmsg.Produce, errs: []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
			kerr.KafkaStorageError, kerr.UnknownTopicOrPartition, kerr.UnknownServerError, kerr.CorruptMessage}},
		{key: kmsg.Fetch, errs: leader},
		{key: kmsg.Fetch, topLevel: true, errs: []*kerr.Error{kerr.UnknownServerError, kerr.FetchSessionIDNotFound}},
		{key: kmsg.Heartbeat, errs: slices.Concat(coordinator, []*kerr.Error{kerr.RebalanceInProgress})},
		{key: kmsg.OffsetCommit, errs: slices.Concat(coordinator, []*kerr.Error{kerr.RequestTimedOut, kerr.RebalanceInProgress, kerr.UnknownTopicOrPartition})},
		{key: kmsg.DeleteRecords, errs: []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError}},
		{key: kmsg.Metadata, errs: []*kerr.Error{kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.UnknownServerError}},
		{key: kmsg.Metadata, starting: true, errs: []*kerr.Error{kerr.LeaderNotAvailable, kerr.UnknownServerError}},
		{key: kmsg.CreateTopics, starting: true, errs: []*kerr.Error{kerr.NotController, kerr.ThrottlingQuotaExceeded, kerr.UnknownServerError, kerr.RequestTimedOut}},
		{key: kmsg.FindCoordinator, starting: true, errs: coordinator},
		{key: kmsg.JoinGroup, starting: true, errs: slices.Concat(coordinator, []*kerr.Error{kerr.RebalanceInProgress})},
		{key: kmsg.SyncGroup, starting: true, errs: slices.Concat(coordinator, []*kerr.Error{kerr.RebalanceInProgress})},
		{key: kmsg.OffsetFetch, starting: true, errs: slices.Concat(coordinator, []*kerr.Error{kerr.UnstableOffsetCommit})},
		{key: kmsg.ListOffsets, starting: true, errs: leader},
		{key: kmsg.InitProducerID, topLevel: true, starting: true, errs: slices.Concat(coordinator, []*kerr.Error{kerr.RequestTimedOut})},
	} {
		name := kmsg.NameForKey(tt.key.Int16())
		if tt.topLevel {
			name += "_as_a_whole"
		}
		if tt.starting {
			name += "_at_the_start"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, began := newFaultBed(t), time.Now()
			faults := make([]kfake.Fault, len(tt.errs))
			for i, err := range tt.errs {
				faults[i] = kfake.Fault{Keys: []kmsg.Key{tt.key}, TopLevel: tt.topLevel, Err: err}
			}
			l := f.load(f.in, 3)
			if tt.starting {
				f.hold(faults[0], func() {
					for _, fault := range faults[1:] {
						fault.Count, fault.When = 2, f.ours
						f.cluster.Fault(fault)
					}
					f.start()
				})
				f.r.ready()
			} else {
				f.start()
				f.r.ready()
				for _, fault := range faults {
					f.hold(fault, func() {})
					f.progress()
				}
			}
			f.settlesExactly(l)
			f.saysLittle(time.Since(began))
		})
	}
}

var errCut = errors.New("cut")

func TestAppSurvivesCutConnectionsAndSlowAnswers(t *testing.T) {
	t.Parallel()
	running := []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.Heartbeat, kmsg.OffsetCommit}
	starting := []kmsg.Key{kmsg.Metadata, kmsg.CreateTopics, kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.ListOffsets,
		kmsg.InitProducerID}
	for _, key := range slices.Concat(running, starting) {
		t.Run("cut_"+kmsg.NameForKey(key.Int16()), func(t *testing.T) {
			t.Parallel()
			f := newFaultBed(t)
			l := f.load(f.in, 3)
			var cuts atomic.Int64
			cut := func() {
				f.cluster.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
					if !f.ours(req) || cuts.Load() == 4 {
						return nil, nil, false
					}
					cuts.Add(1)
					f.cluster.KeepControl()
					return nil, errCut, true
				})
			}
			if slices.Contains(starting, key) {
				cut()
			}
			f.start()
			f.r.ready()
			if slices.Contains(running, key) {
				cut()
			}
			f.r.until("cuts", func() bool { return cuts.Load() >= 4 })
			f.settlesExactly(l)
		})
		t.Run("slow_"+kmsg.NameForKey(key.Int16()), func(t *testing.T) {
			t.Parallel()
			f := newFaultBed(t)
			l := f.load(f.in, 3)
			var slept atomic.Int64
			slow := func() {
				f.cluster.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
					if f.ours(req) && slept.Add(1) <= 3 {
						f.cluster.SleepControl(func() { time.Sleep(700 * time.Millisecond) })
					}
					return nil, nil, false
				})
			}
			if slices.Contains(starting, key) {
				slow()
			}
			f.start()
			f.r.ready()
			if slices.Contains(running, key) {
				slow()
			}
			f.r.until("slow answers", func() bool { return slept.Load() > 0 })
			f.settlesExactly(l)
		})
	}
}

// While nothing can be reached, every plane dials with pauses.
func TestAppDialsWithPauses(t *testing.T) {
	f := newFaultBed(t)
	f.values(f.in, 0, "a b c")
	f.start()
	f.r.until("counts", func() bool { return total(f.counts(f.out)) == 3 })
	var down atomic.Bool
	down.Store(true)
	var cuts atomic.Int64
	f.cluster.ControlKey(-1, func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		if !down.Load() {
			return nil, nil, false
		}
		cuts.Add(1)
		return nil, errCut, true
	})
	time.Sleep(2 * time.Second) // a window to count in
	n := cuts.Load()
	down.Store(false)
	require.Less(t, n, int64(200))
	require.Greater(t, n, int64(3))
	f.values(f.in, 1, "a b c")
	f.r.until("counts", func() bool { return total(f.counts(f.out)) == 6 })
	f.r.until("ready again", f.r.app.Ready)
	require.NoError(t, f.r.end())
	f.saysLittle(2 * time.Second)
}

func TestAppFollowsBrokersThatComeAndGo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(f *faultBed)
	}{
		{"leaders move", func(f *faultBed) {
			for i := range int32(6) {
				for p := range int32(3) {
					for _, topic := range []string{f.in, f.out, f.name("count") + "-word-counts-repartition", f.name("count") + "-word-counts-changelog"} {
						require.NoError(f.t, f.cluster.MoveTopicPartition(topic, p, (p+i)%3))
					}
				}
				f.progress()
			}
		}},
		{"coordinators move", func(f *faultBed) {
			for range 6 {
				f.cluster.RehashCoordinators()
				f.progress()
			}
		}},
		{"brokers are replaced", func(f *faultBed) {
			for i := range int32(2) { // the third stays, for the test's own client
				_, _, err := f.cluster.AddNode(10+i, 0)
				require.NoError(f.t, err)
				f.cluster.ShufflePartitionLeaders()
				require.NoError(f.t, f.cluster.RemoveNode(i))
				f.cluster.RehashCoordinators()
				f.progress()
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, began := newFaultBed(t), time.Now()
			f.start()
			f.r.ready()
			l := f.load(f.in, 3)
			tt.do(f)
			f.settlesExactly(l)
			f.saysLittle(time.Since(began))
		})
	}
}

// progress waits until more is counted than now.
func (f *faultBed) progress() {
	f.t.Helper()
	was := total(f.counts(f.out))
	f.r.until("more counts", func() bool { return f.r.app.State() == streams.StateRunning && total(f.counts(f.out)) > was+200 })
}
