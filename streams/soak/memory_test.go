package soak

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/task"
)

// rest is what a process takes beside Config.Memory: the runtime, connections, goroutines, 200 empty tasks.
const rest = 64 << 20

const partitions = 200

// A process with 200 tasks restores a large state, and then has a broker that answers no produce request while there is much more input than
// it may hold. It keeps to its memory, and what was put in comes out.
func TestMemoryIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	t.Run("64 MiB", func(t *testing.T) { memoryIsKept(t, 64<<20, 400) })
	t.Run("512 MiB", func(t *testing.T) { memoryIsKept(t, 512<<20, 1500) })
}

// memoryIsKept puts so many records into each input partition.
func memoryIsKept(t *testing.T, memory int64, records int) {
	p := newPressure(t, memory)
	p.fill(p.plan.App+"-rows-changelog", 2000) // 60 MB
	p.hold()
	app := spawn(t, p.plan)
	p.until(app, "running", func() bool { s, _ := app.said("state "); return s == "running" })
	p.fill(p.plan.In, records)
	p.until(app, "quiet", func() bool { return p.held.Load() > 0 && time.Since(time.Unix(0, p.fetched.Load())) > quiet })
	require.Less(t, p.position(), int64(partitions*records), "all of the input has been read while nothing could be written")
	p.letGo()
	p.until(app, "everything", func() bool { return p.committed() == int64(partitions*records) })
	require.NoError(t, app.end(syscall.SIGTERM))
	said, _ := app.said("peak ")
	peak, err := strconv.ParseInt(said, 10, 64)
	require.NoError(t, err)
	t.Logf("peak %d MiB of anonymous memory, with %d MiB", peak>>20, memory>>20)
	require.Positive(t, peak)
	require.Less(t, peak, memory+rest)
}

// quiet is how long no input is asked for when all queues are full: several times what a fetch is parked.
const quiet = time.Second

// pressure is a broker that can hold produce requests.
type pressure struct {
	t      *testing.T
	plan   plan
	broker *broker.Broker
	client *broker.Client

	release chan struct{}
	once    sync.Once
	held    atomic.Int64 // produce requests
	fetched atomic.Int64 // when input was asked for last
	mu      sync.Mutex
	asked   map[int32]int64 // by input partition, the last offset that was asked for
}

func newPressure(t *testing.T, memory int64) *pressure {
	p := &pressure{t: t, release: make(chan struct{}), asked: map[int32]int64{}}
	p.plan = plan{App: "soak", Dir: t.TempDir(), In: "in", Out: "out", Memory: memory}
	var err error
	p.broker, err = broker.Start(broker.Options{Topics: map[string]int32{"in": partitions, "out": partitions}})
	require.NoError(t, err)
	t.Cleanup(p.broker.Close)
	t.Cleanup(p.letGo)
	p.plan.Brokers = p.broker.Addrs()
	p.client, err = broker.NewClient(p.plan.Brokers)
	require.NoError(t, err)
	t.Cleanup(p.client.Close)
	configs := map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
	require.NoError(t, p.client.CreateTopic(p.ctx(), "soak-rows-changelog", partitions, configs))
	return p
}

func (p *pressure) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p.t.Cleanup(cancel)
	return ctx
}

// fill puts n records of 150 bytes with keys of their own into each partition.
func (p *pressure) fill(topic string, n int) {
	p.t.Helper()
	value := make([]byte, 128)
	for part := range int32(partitions) {
		rs := make([]task.OutRecord, n)
		for i := range rs {
			rs[i] = task.OutRecord{Key: binary.BigEndian.AppendUint64([]byte("key-"), uint64(i)), Value: value, Timestamp: time.Now().UnixMilli()}
		}
		require.NoError(p.t, p.client.Produce(p.ctx(), task.TopicPartition{Topic: topic, Partition: part}, rs...))
	}
}

// ours is the version of Produce that the application speaks, and no other client of this test.
const ours = 8

// hold answers no produce request of the application until letGo, and notes what it fetches.
func (p *pressure) hold() {
	c := p.broker.Cluster()
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if req.GetVersion() == ours {
			p.held.Add(1)
			c.SleepControl(func() { <-p.release })
		}
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			if topic.Topic == "in" {
				p.note(topic.Partitions)
			}
		}
		return nil, nil, false
	})
}

func (p *pressure) note(asked []kmsg.FetchRequestTopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range asked {
		p.asked[a.Partition] = a.FetchOffset
	}
	p.fetched.Store(time.Now().UnixNano())
}

// position is how much of the input has been read.
func (p *pressure) position() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.asked {
		n += at
	}
	return n
}

func (p *pressure) letGo() { p.once.Do(func() { close(p.release) }) }

func (p *pressure) committed() (n int64) {
	offsets, err := p.client.Committed(p.ctx(), p.plan.App)
	require.NoError(p.t, err)
	for tp, o := range offsets {
		if tp.Topic == p.plan.In {
			n += o.Offset
		}
	}
	return n
}

func (p *pressure) until(app *process, what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if app.over() || time.Now().After(deadline) {
			app.mu.Lock()
			said := strings.Join(app.lines, "\n")
			app.mu.Unlock()
			require.Failf(p.t, "it does not come about", "waiting for %s (at %d, committed %d):\n%s", what, p.position(), p.committed(), said)
		}
	}
}
