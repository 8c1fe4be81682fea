package streams_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// A slow function with much input: what is read ahead is bounded, and the partition is not asked for meanwhile.
func TestAppBackPressure(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	value := make([]byte, 32<<10)
	rand.NewChaCha8([32]byte{}).Read(value) // it cannot be compressed
	const records = 2000                    // 64 MB
	for range records / 4 {
		batch := make([]task.OutRecord, 4)
		for i := range batch {
			batch[i] = task.OutRecord{Value: value, Timestamp: 1}
		}
		b.put(in, 0, batch...)
	}
	fetched := make(chan int64, 10_000)
	b.embedded.Cluster().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.embedded.Cluster().KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				fetched <- p.FetchOffset
			}
		}
		return nil, nil, false
	})
	open := make(chan struct{})
	entered := make(chan struct{}, records)
	sb := streams.NewBuilder()
	sb.Stream(in, serde.Bytes, serde.Bytes).MapValues(func(v []byte) []byte {
		entered <- struct{}{}
		<-open
		return v[:1]
	}).To(to)
	c := b.config("slow")
	c.Memory = 32 << 20
	before := heap()
	r := b.run(sb, c)
	<-entered
	furthest := int64(-1)
	for quiet := false; !quiet; {
		select {
		case at := <-fetched:
			furthest = max(furthest, at)
		case <-time.After(300 * time.Millisecond): // three times what the broker may park a fetch
			quiet = true
		}
	}
	require.Positive(t, furthest)
	require.Less(t, furthest*int64(len(value)), int64(1<<20), "of 64 MB")
	require.Less(t, heap()-before, int64(32<<20))
	close(open)
	r.until("everything", func() bool { return b.committedAt("slow", in, 0) == records })
	require.NoError(t, r.end())
	require.Len(t, b.all(to), records)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
