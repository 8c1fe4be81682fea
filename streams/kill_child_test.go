//go:build failpoints

package streams_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// killEnv makes the test binary the application that is killed; its value is a killSpec.
const killEnv = "UNDERSTUDY_KILL_CHILD"

func init() { children[killEnv] = killChild }

// The names of what the application reads and writes.
const (
	killApp         = "app"
	killIn          = "in"
	killDirect      = "direct" // store of what is aggregated by the key of the input
	killRouted      = "routed" // store behind the repartition topic
	killRepartition = killApp + "-" + killRouted + "-repartition"
	killPartitions  = 3
	killKeys        = 7

	// Stores of records that are to be tried again, of the two subtopologies.
	killInRetry     = killIn + "-retry"
	killRoutedRetry = killRouted + "-repartition-retry"
)

func killChangelog(store string) string {
	if store == killInRetry || store == killRoutedRetry {
		return killApp + "-" + store
	}
	return killApp + "-" + store + "-changelog"
}

func killOut(store string) string { return store + "-out" }

// killSpec says how one life of the application runs.
type killSpec struct {
	Brokers    []string
	Dir        string
	Life       string // its client id
	Pad        int    // bytes in front of each aggregate, so that restores take the way of large ones
	FlushEvery int    // the database flushes after so many applied batches; 0: when it likes
	Workers    int    // of the policy
}

// id names a record of the input: its partition and offset. An aggregate is the list of the ids that went into it.
type id uint32

func newID(partition int32, offset int64) id { return id(partition)<<24 | id(offset) }

func (i id) partition() int32 { return int32(i >> 24) }

func (i id) offset() int64 { return int64(i & 0xffffff) }

func (i id) String() string { return fmt.Sprintf("%d@%d", i.partition(), i.offset()) }

// key is the key of the record in the input.
func (i id) key() string {
	return "k" + strconv.FormatInt(i.offset()*31%killKeys, 10) + "p" + strconv.Itoa(int(i.partition()))
}

// route is the key behind the repartition topic; each has records of every partition.
func (i id) route() string {
	h := fnv.New32a()
	_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(i)))
	return "r" + strconv.Itoa(int(h.Sum32()%(3*killKeys)))
}

func (i id) value() []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

func idOf(value []byte) id { return id(binary.BigEndian.Uint32(value)) }

// once fails each of its records once in this process.
type once struct {
	every, rest int64 // of the offsets of the input
	met         sync.Map
}

var errOnce = errors.New("it fails once")

func (o *once) check(x id) error {
	if x.offset()%o.every != o.rest {
		return nil
	}
	if _, met := o.met.LoadOrStore(x, true); met {
		return nil
	}
	return errOnce
}

// killTopology aggregates the input twice: by its own key, and behind a repartition topic. Some records fail once in each process: before they
// are aggregated, and behind the repartition topic when they are.
func killTopology(pad, workers int) *streams.Builder {
	b := streams.NewBuilder()
	direct, routed := &once{every: 7, rest: 3}, &once{every: 5, rest: 2}
	// Several deaths in a row are no suspicion here.
	policy := retry.KeyOrdered(retry.Backoff(3*time.Millisecond, 20*time.Millisecond), retry.Crashes(100), retry.Workers(workers))
	in := b.Stream(killIn, serde.String, serde.Bytes, streams.OnFailure(policy)).
		TryPeek("fails-once", func(_ context.Context, r streams.Record[string, []byte]) error { return direct.check(idOf(r.Value)) })
	list := func(g streams.Grouped[string, []byte], store string) {
		g.Aggregate(store, func() []byte { return make([]byte, pad) }, func(_ string, v, list []byte) []byte {
			return append(list, v...)
		}, streams.WithValueSerde(serde.Bytes)).ToStream().
			TryPeek("fails-once-in-"+store, func(_ context.Context, r streams.Record[string, []byte]) error {
				if store == killDirect {
					return nil
				}
				return routed.check(idOf(r.Value[len(r.Value)-4:]))
			}).
			To(killOut(store))
	}
	list(in.GroupByKey(), killDirect)
	list(in.GroupBy(func(_ string, v []byte) string { return idOf(v).route() }), killRouted)
	return b
}

// killChild runs the application until SIGTERM, and says on its standard output what happens.
func killChild(text string) int {
	var spec killSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := zap.Must(zap.NewDevelopment()) // told if the case fails
	app, err := streams.New(killTopology(spec.Pad, spec.Workers), streams.Config{
		ApplicationID: killApp, Brokers: spec.Brokers, StateDir: spec.Dir, ClientID: spec.Life, Log: log, Memory: 32 << 20,
		CommitInterval: 20 * time.Millisecond, Session: 30 * time.Second, Heartbeat: 50 * time.Millisecond, CloseTimeout: 20 * time.Second,
		Listener: streams.Listener{
			State: func(s streams.State) { fmt.Println("state", s) },
			Lost:  func(reason string) { fmt.Println("lost", reason) },
			Restore: func(p streams.RestoreProgress) {
				if p.Done {
					fmt.Println("restored", p.Records)
				}
			},
			Wiped: func(task streams.TaskID, topic string, _ int32, reason string) {
				fmt.Println("wiped", task, topic, reason)
			},
		},
	})
	if err == nil {
		app.Tune(func(c *shell.Config) { tuneKilled(c, spec) })
		err = app.Run(ctx)
	}
	for _, name := range slices.Sorted(maps.Keys(fail.Hits())) {
		fmt.Println("hits", name, fail.Hits()[name])
	}
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

// tuneKilled makes what is rare frequent.
func tuneKilled(c *shell.Config, spec killSpec) {
	c.Engine.PurgeEvery = 5 * time.Millisecond
	c.Engine.RestoreBytes = 300 << 10
	c.Planner.PartBytes = 4 << 20
	if spec.FlushEvery > 0 {
		c.Backend = &flushing{Backend: c.Backend, every: int64(spec.FlushEvery)}
	}
}

// flushing is a backend that flushes after some batches, so that a directory that is kept has more to tell than where it began.
type flushing struct {
	statestore.Backend
	every   int64
	applied atomic.Int64
}

func (f *flushing) Open(task statestore.TaskID, stores []statestore.Spec) (statestore.TaskStores, error) {
	t, err := f.Backend.Open(task, stores)
	if err != nil {
		return nil, err
	}
	return &flushingStores{TaskStores: t, f: f}, nil
}

type flushingStores struct {
	statestore.TaskStores
	f *flushing
}

func (s *flushingStores) Apply(b *statestore.Batch) error { return s.f.flush(s.TaskStores.Apply(b)) }

func (s *flushingStores) Ingest(b *statestore.Batch) error { return s.f.flush(s.TaskStores.Ingest(b)) }

func (f *flushing) flush(err error) error {
	if err == nil && f.applied.Add(1)%f.every == 0 {
		err = f.Flush()
	}
	return err
}
