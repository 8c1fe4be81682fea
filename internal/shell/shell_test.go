package shell_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an embedded cluster with the topics "in" and "out", one partition each.
type bench struct {
	t      *testing.T
	broker *broker.Broker
	client *broker.Client
	config shell.Config
}

func newBench(t *testing.T, brokers int) *bench {
	b, err := broker.Start(broker.Options{Brokers: brokers, Topics: map[string]int32{"in": 1, "out": 1}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	c, err := broker.NewClient(b.Addrs())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &bench{t: t, broker: b, client: c, config: config(t, b.Addrs(), copyRecords(func(*task.Record) {}))}
}

// config describes an application that runs one subtopology from "in" to "out".
func config(t *testing.T, addrs []string, spec *task.Spec) shell.Config {
	k, err := kafka.Open(kafka.Config{Brokers: addrs, DialTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	counts := map[string]int32{"in": 1, "out": 1}
	return shell.Config{
		Engine: engine.Config{
			Group: group.Config{Group: "app", Session: 5 * time.Second, Rebalance: 5 * time.Second, Heartbeat: 50 * time.Millisecond},
			Specs: []*task.Spec{spec}, Hashes: map[int32]uint64{0: 1}, CloseWithin: 10 * time.Second,
		},
		Client: k,
		Ensure: func(context.Context) engine.TopicsReady { return engine.TopicsReady{Partitions: counts} },
		NewTask: func(ctx context.Context, c task.Config) task.Config {
			c.Spec, c.Context, c.CommitInterval = spec, ctx, 20*time.Millisecond
			c.Partitions = func(topic string) int32 { return counts[topic] }
			return c
		},
	}
}

// copyRecords passes records on after f has seen them.
func copyRecords(f func(*task.Record)) *task.Spec {
	return &task.Spec{
		Inputs: []task.Input{{Topic: "in"}}, Dests: []task.Dest{{Topic: "out"}},
		Build: func(e *task.Env) (*task.Graph, error) {
			return &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
				f(r)
				e.Send(0, 0, append(e.Tail(), r.Value...), -1, len(r.Value), r.Timestamp, nil)
			}}}, nil
		},
	}
}

func (b *bench) spec(s *task.Spec) {
	b.config = config(b.t, b.broker.Addrs(), s)
}

func (b *bench) put(values ...string) {
	b.t.Helper()
	for _, v := range values {
		r := task.OutRecord{Value: []byte(v), Timestamp: time.Now().UnixMilli()}
		require.NoError(b.t, b.client.Produce(b.t.Context(), task.TopicPartition{Topic: "in"}, r))
	}
}

func (b *bench) comesOut(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		got, err := b.client.Consume(b.t.Context(), "out")
		return err == nil && len(got[0]) == n
	}, 20*time.Second, 10*time.Millisecond)
}

// run runs a Runtime; what it returns ends it and gives the error of Run, which must come within limit.
func (b *bench) run() (r *shell.Runtime, stop func(limit time.Duration) error) {
	r = shell.New(b.config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func(limit time.Duration) error {
		b.t.Helper()
		cancel()
		return within(b.t, limit, done)
	}
}

func (b *bench) fails(limit time.Duration) error {
	b.t.Helper()
	done := make(chan error, 1)
	r := shell.New(b.config)
	go func() { done <- r.Run(context.Background()) }()
	return within(b.t, limit, done)
}

func within(t *testing.T, limit time.Duration, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		buf := make([]byte, 1<<20)
		require.Failf(t, "Run does not return", "%s", buf[:runtime.Stack(buf, true)])
		return nil
	}
}

func TestRecordsGoThroughAndTheEndIsClean(t *testing.T) {
	b := newBench(t, 1)
	_, stop := b.run()
	b.put("a", "b", "c")
	b.comesOut(3)
	require.NoError(t, stop(10*time.Second))
	offsets, err := b.client.Committed(t.Context(), "app")
	require.NoError(t, err)
	require.Equal(t, int64(3), offsets[task.TopicPartition{Topic: "in"}].Offset)
}

// A partition without a leader, or one that is not there at all, holds up its own task only.
func TestTasksBeginWhoseOffsetsCanBeHad(t *testing.T) {
	b := newBench(t, 1)
	b.config.Ensure = func(context.Context) engine.TopicsReady {
		return engine.TopicsReady{Partitions: map[string]int32{"in": 2, "out": 1}}
	}
	_, stop := b.run()
	b.put("a", "b", "c")
	b.comesOut(3)
	require.NoError(t, stop(10*time.Second))
}

func TestUserCodeThatEndsItsGoroutineFailsItsRecord(t *testing.T) {
	b := newBench(t, 1)
	b.spec(copyRecords(func(r *task.Record) {
		if string(r.Value) == "bad" {
			runtime.Goexit()
		}
	}))
	b.put("good", "bad", "never")
	err := b.fails(8 * time.Second)
	var te *task.Error
	require.ErrorAs(t, err, &te)
	require.Equal(t, task.KindPanic, te.Kind)
	require.Equal(t, "in", te.Topic)
	require.Equal(t, int64(1), te.Offset)
	require.ErrorContains(t, err, "runtime.Goexit")
	require.Contains(t, string(te.Stack), "shell_test.go")
}

func TestSuppliersThatEndTheirGoroutineFailTheTask(t *testing.T) {
	b := newBench(t, 1)
	s := copyRecords(nil)
	s.Build = func(*task.Env) (*task.Graph, error) { runtime.Goexit(); return nil, nil }
	b.spec(s)
	var te *task.Error
	require.ErrorAs(t, b.fails(8*time.Second), &te)
	require.Equal(t, int32(-1), te.Partition, "it is about no record")
}

// A panic anywhere in the runtime, or in a listener, is an error of Run.
func TestPanicsEndRunAndNotTheProgram(t *testing.T) {
	oops := errors.New("oops")
	for _, tt := range []struct {
		name  string
		cause func(c *shell.Config)
		where string
	}{
		{"a notice", func(c *shell.Config) { c.Notice = func(engine.Notice) { panic(oops) } }, "the listener"},
		{"a notice of a running task", func(c *shell.Config) {
			c.Notice = func(n engine.Notice) {
				if n.Kind == engine.NoticeTask && n.Text == "running" {
					panic(oops)
				}
			}
		}, "the listener"},
		{"a new task", func(c *shell.Config) { c.NewTask = func(context.Context, task.Config) task.Config { panic(oops) } }, "the core loop"},
		{"a request", func(c *shell.Config) { c.Ensure = func(context.Context) engine.TopicsReady { panic(oops) } }, "a goroutine of the runtime"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 1)
			tt.cause(&b.config)
			b.put("a")
			err := b.fails(8 * time.Second)
			require.ErrorIs(t, err, oops)
			var crash *shell.CrashError
			require.ErrorAs(t, err, &crash)
			require.Equal(t, tt.where, crash.Where)
			require.Contains(t, string(crash.Stack), "shell_test.go")
		})
	}
}

func TestAListenerThatPanicsEndsRunCleanly(t *testing.T) {
	b := newBench(t, 1)
	oops := errors.New("oops")
	b.config.Notice = func(n engine.Notice) {
		if n.Kind == engine.NoticeTask && n.Text == "running" {
			panic(oops)
		}
	}
	require.ErrorIs(t, b.fails(8*time.Second), oops)
	left, err := b.broker.Cluster().WaitGroupInfo(t.Context(), "app", func(g *kfake.GroupInfo) bool { return g == nil || len(g.Members) == 0 })
	require.NoError(t, err)
	require.True(t, left == nil || len(left.Members) == 0, "it has said goodbye to the group")
}

func TestANoticeThatEndsItsGoroutineEndsRun(t *testing.T) {
	b := newBench(t, 1)
	b.config.Notice = func(engine.Notice) { runtime.Goexit() }
	require.ErrorContains(t, b.fails(8*time.Second), "runtime.Goexit")
}

// panickyBackend fails in the writer pool.
type panickyBackend struct{ statestore.Backend }

func (panickyBackend) Open(task.ID, []statestore.Spec) (statestore.TaskStores, error) {
	panic("no disk at all")
}

func TestAPanicInTheWriterPoolIsAnErrorOfItsTask(t *testing.T) {
	b := newBench(t, 1)
	s := copyRecords(func(*task.Record) {})
	s.Stores = []task.Store{{Spec: statestore.Spec{Name: "s"}}}
	b.spec(s)
	w := pebblestore.NewWriters(2)
	defer w.Close()
	b.config.Backend, b.config.Writers = panickyBackend{}, w
	var se *engine.StoreError
	err := b.fails(8 * time.Second)
	require.ErrorAs(t, err, &se)
	require.ErrorContains(t, err, "no disk at all")
}

// slowBackend takes its time to open stores, and says which are open.
type slowBackend struct {
	statestore.Backend
	wait chan struct{}
	open atomic.Int64
}

type countedStores struct {
	statestore.TaskStores
	b *slowBackend
}

func (b *slowBackend) Open(id task.ID, specs []statestore.Spec) (statestore.TaskStores, error) {
	<-b.wait
	ts, err := b.Backend.Open(id, specs)
	b.open.Add(1)
	return countedStores{ts, b}, err
}

func (s countedStores) Close() error {
	s.b.open.Add(-1)
	return s.TaskStores.Close()
}

func TestStoresThatAreSlowToOpenHoldUpNoHeartbeatAndAreClosed(t *testing.T) {
	b := newBench(t, 1)
	s := copyRecords(func(*task.Record) {})
	s.Stores = []task.Store{{Spec: statestore.Spec{Name: "s"}}}
	b.spec(s)
	w := pebblestore.NewWriters(2)
	defer w.Close()
	slow := &slowBackend{Backend: statestore.NewMemory(), wait: make(chan struct{})}
	b.config.Backend, b.config.Writers = slow, w
	assigned := make(chan struct{}, 1)
	b.config.Notice = func(n engine.Notice) {
		if n.Kind == engine.NoticeAssigned {
			assigned <- struct{}{}
		}
	}
	var beats atomic.Int64
	b.broker.Cluster().ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		beats.Add(1)
		return nil, nil, false
	})
	_, stop := b.run()
	<-assigned
	before := beats.Load()
	require.Eventually(t, func() bool { return beats.Load() > before+3 }, 10*time.Second, 10*time.Millisecond)
	time.AfterFunc(300*time.Millisecond, func() { close(slow.wait) }) // the end comes while they are being opened
	require.NoError(t, stop(10*time.Second))
	require.Zero(t, slow.open.Load())
}

// hungBackend never ends a write.
type hungBackend struct {
	statestore.Backend
	writing, let chan struct{}
}

type hungStores struct {
	statestore.TaskStores
	b hungBackend
}

func (b hungBackend) Open(id task.ID, specs []statestore.Spec) (statestore.TaskStores, error) {
	ts, err := b.Backend.Open(id, specs)
	return hungStores{ts, b}, err
}

func (s hungStores) Apply(b *statestore.Batch) error {
	close(s.b.writing)
	<-s.b.let
	return s.TaskStores.Apply(b)
}

func TestTheEndDoesNotWaitForAHungDiskForEver(t *testing.T) {
	b := newBench(t, 1)
	s := copyRecords(nil)
	s.Stores = []task.Store{{Spec: statestore.Spec{Name: "s"}}}
	s.Build = func(e *task.Env) (*task.Graph, error) {
		return &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
			if err := e.Store(0).Put([]byte("k"), r.Value, r.Timestamp); err != nil {
				e.Fail("put", task.KindStore, err)
			}
		}}}, nil
	}
	b.spec(s)
	w := pebblestore.NewWriters(2)
	hung := hungBackend{Backend: statestore.NewMemory(), writing: make(chan struct{}), let: make(chan struct{})}
	b.config.Backend, b.config.Writers = hung, w
	b.config.WriteDeadline, b.config.Engine.CloseWithin = 300*time.Millisecond, 300*time.Millisecond
	said := make(chan error, 1)
	b.config.Notice = func(n engine.Notice) {
		if n.Kind == engine.NoticeRetry && n.What == "write of the stores" {
			said <- n.Err
		}
	}
	b.put("a")
	_, stop := b.run()
	<-hung.writing
	var late *pebblestore.OverrunError
	require.ErrorAs(t, <-said, &late)
	err := stop(5 * time.Second)
	close(hung.let)
	w.Close()
	var overdue *engine.CloseError
	require.ErrorAs(t, err, &overdue)
	require.ErrorContains(t, err, "the disk does not answer")
}

func TestTheEndDoesNotWaitForAStuckCallForEver(t *testing.T) {
	b := newBench(t, 1)
	called, let := make(chan struct{}), make(chan struct{})
	b.spec(copyRecords(func(*task.Record) { close(called); <-let }))
	b.config.Engine.CloseWithin = 300 * time.Millisecond
	b.put("a")
	_, stop := b.run()
	<-called
	err := stop(5 * time.Second)
	close(let)
	var overdue *engine.CloseError
	require.ErrorAs(t, err, &overdue)
	require.Equal(t, []engine.Call{{Task: task.ID{}, Part: task.TopicPartition{Topic: "in"}, Offset: 0}}, overdue.Calls)
}

func TestTheWatchdogSeesASupplierThatDoesNotReturn(t *testing.T) {
	b := newBench(t, 1)
	s := copyRecords(nil)
	let := make(chan struct{})
	s.Build = func(*task.Env) (*task.Graph, error) { <-let; return nil, errors.New("late") }
	b.spec(s)
	b.config.CallTimeout, b.config.Engine.MaxStuck, b.config.Engine.CloseWithin = 200*time.Millisecond, -1, time.Second
	err := b.fails(8 * time.Second)
	close(let)
	var stuck *engine.StuckError
	require.ErrorAs(t, err, &stuck)
	var late *shell.CallTimeoutError
	require.ErrorAs(t, err, &late)
	require.Equal(t, int64(-1), late.Offset)
}

// The broker takes connections and never answers, or stops to answer one kind of request.
func TestTheEndIsBoundedWhateverHangs(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.ListOffsets,
		kmsg.InitProducerID, kmsg.Produce, kmsg.Fetch, kmsg.OffsetCommit, kmsg.Heartbeat, kmsg.LeaveGroup} {
		t.Run(kmsg.NameForKey(int16(key)), func(t *testing.T) {
			b := newBench(t, 1)
			b.put("a")
			hung := make(chan struct{}, 1)
			b.broker.Cluster().ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
				if p, ok := req.(*kmsg.ProduceRequest); ok && p.Topics[0].Topic == "in" {
					return nil, nil, false
				}
				b.broker.Cluster().KeepControl()
				select {
				case hung <- struct{}{}:
				default:
				}
				return nil, nil, true // never answered
			})
			b.config.Engine.CloseWithin = 500 * time.Millisecond
			_, stop := b.run()
			if key == kmsg.LeaveGroup {
				b.comesOut(1)
			} else {
				<-hung
			}
			began := time.Now()
			err := stop(10 * time.Second)
			require.Less(t, time.Since(began), 5*time.Second)
			var overdue *engine.CloseError
			require.True(t, err == nil || errors.As(err, &overdue), "%v", err)
		})
	}
}

// hungDisk does not come back from a look at it.
type hungDisk struct {
	told   chan func(error)
	asked  chan struct{}
	thaw   chan struct{}
	noRoom error
}

func (h *hungDisk) Room() (free, total int64, err error) {
	close(h.asked)
	<-h.thaw
	return 0, 0, h.noRoom
}
func (*hungDisk) Free() (free, total int64)   { return -1, -1 }
func (h *hungDisk) Full(err error) bool       { return errors.Is(err, h.noRoom) }
func (*hungDisk) Health() error               { return nil }
func (*hungDisk) Ready(context.Context) error { return nil }
func (h *hungDisk) Watch(f func(error)) {
	if f != nil {
		h.told <- f
	}
}

func TestTheEndDoesNotWaitForADiskThatHangs(t *testing.T) {
	b := newBench(t, 1)
	d := &hungDisk{told: make(chan func(error), 1), asked: make(chan struct{}), thaw: make(chan struct{}), noRoom: errors.New("no room")}
	defer close(d.thaw)
	b.config.Disk = d
	_, stop := b.run()
	b.put("a")
	b.comesOut(1)
	(<-d.told)(d.noRoom)
	<-d.asked
	require.NoError(t, stop(5*time.Second))
}

func TestRunIsCloseable(t *testing.T) {
	b := newBench(t, 1)
	r, stop := b.run()
	b.put("a")
	b.comesOut(1)
	r.Close(0)
	r.Close(time.Second)
	require.NoError(t, stop(10*time.Second))
	r.Close(0)
}

// goroutines counts those that are in a function.
func goroutines(in string) int {
	buf := make([]byte, 4<<20)
	n := 0
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, in) {
			n++
		}
	}
	return n
}

// A broker that is not needed any more costs no goroutine and no connection, and one that is needed again is found again.
func TestIdleConnectionsEnd(t *testing.T) {
	b := newBench(t, 3)
	b.config.IdleFor = 100 * time.Millisecond
	b.config.Engine.RefreshEvery = 50 * time.Millisecond
	_, stop := b.run()
	fetching := func() int { return goroutines("shell.(*fetchLoop).run") }
	producing := func() int { return goroutines("shell.(*producer).run") }
	for i := range int32(6) {
		b.put("x")
		b.comesOut(int(i) + 1)
		require.NoError(t, b.broker.Cluster().MoveTopicPartition("in", 0, i%3))
		require.NoError(t, b.broker.Cluster().MoveTopicPartition("out", 0, (i+1)%3))
	}
	require.Eventually(t, func() bool { return producing() == 0 && fetching() == 1 }, 20*time.Second, 20*time.Millisecond)
	b.put("y")
	b.comesOut(7)
	require.NoError(t, stop(10*time.Second))
	require.Zero(t, producing()+fetching())
}

// The clock that Go measures with stands still while a machine sleeps; the group's does not.
func TestAHostThatHasSleptFindsItsLeaseOver(t *testing.T) {
	b := newBench(t, 1)
	var slept atomic.Int64
	b.config.Slept = func() time.Duration { return time.Duration(slept.Load()) }
	lost := make(chan string, 100)
	b.config.Notice = func(n engine.Notice) {
		if n.Kind == engine.NoticeLost {
			lost <- n.Text
		}
	}
	_, stop := b.run()
	b.put("a")
	b.comesOut(1)
	require.Eventually(t, func() bool { // or it is processed again, as is right
		offsets, err := b.client.Committed(t.Context(), "app")
		return err == nil && offsets[task.TopicPartition{Topic: "in"}].Offset == 1
	}, 10*time.Second, 10*time.Millisecond)
	slept.Store(int64(time.Minute))
	select {
	case <-lost:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the lease goes on")
	}
	b.put("b")
	b.comesOut(2)
	require.NoError(t, stop(10*time.Second))
}
