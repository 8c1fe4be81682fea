//go:build unix

package streams_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// BenchmarkRestore is the whole way of a restore, from a broker in a process of its own to stores that tasks run on: 2,000,000 rows of 100 bytes over 8
// changelog partitions, or over one, into an empty state directory. rows/s is from the listener's first word of a restore to its last; cpu-us/row is that
// of this process until the application runs, and s-to-running from its start. With -trace it shows who waits for whom.
func BenchmarkRestore(b *testing.B) {
	for _, partitions := range []int32{8, 1} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			addrs := realkafka.Shared(b).Addrs()
			const rows = 2_000_000
			app := fmt.Sprintf("restore-%d-%d", partitions, time.Now().UnixNano())
			fillChangelog(b, addrs, app, partitions, rows)
			var c comeback
			for b.Loop() {
				c.add(b, addrs, app, rows)
			}
			n := float64(b.N * rows)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(n/c.restored.Seconds(), "rows/s")
			b.ReportMetric(float64(c.used.Nanoseconds())/n/1e3, "cpu-us/row")
			b.ReportMetric(c.running.Seconds()/float64(b.N), "s-to-running")
		})
	}
}

// fillChangelog makes the input of a table, and its changelog with rows in no order of their keys.
func fillChangelog(b *testing.B, addrs []string, app string, partitions int32, rows int) {
	client, err := broker.NewClient(addrs, kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(b, err)
	defer client.Close()
	ctx := context.Background()
	changelog := app + "-rows-changelog"
	require.NoError(b, client.CreateTopic(ctx, app+"-in", partitions, nil))
	require.NoError(b, client.CreateTopic(ctx, changelog, partitions, map[string]string{"cleanup.policy": "compact"}))
	rng := rand.New(rand.NewPCG(1, 1))
	letters := make([]byte, 1<<16)
	for i := range letters {
		letters[i] = 'a' + byte(rng.IntN(26))
	}
	keys := rng.Perm(rows)
	batch := make([]task.OutRecord, 5000) // as large as ours are
	for from := 0; from < rows; from += len(batch) {
		for i := range batch {
			at := rng.IntN(len(letters) - 100)
			batch[i] = task.OutRecord{Key: fmt.Appendf(nil, "k%07d", keys[from+i]), Value: letters[at : at+100], Timestamp: time.Now().UnixMilli()}
		}
		tp := task.TopicPartition{Topic: changelog, Partition: int32(from/len(batch)) % partitions}
		require.NoError(b, client.Produce(ctx, tp, batch...))
	}
}

// comeback adds up what applications cost that begin without their state.
type comeback struct{ restored, used, running time.Duration }

func (c *comeback) add(b *testing.B, addrs []string, app string, rows int64) {
	dir, err := os.MkdirTemp(b.TempDir(), "")
	require.NoError(b, err)
	var first, last, running time.Time
	records, spent := int64(0), time.Duration(0)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	builder := streams.NewBuilder()
	builder.Stream(app+"-in", serde.String, serde.String).GroupByKey().Reduce("rows", func(first, _ string) string { return first })
	began, before := time.Now(), processTime()
	a, err := streams.New(builder, streams.Config{
		ApplicationID: app, Brokers: addrs, StateDir: dir, Memory: 341 << 20, Log: zap.NewNop(),
		Listener: streams.Listener{
			Restore: func(p streams.RestoreProgress) {
				if first.IsZero() {
					first = time.Now()
				}
				if p.Done {
					records, last = records+p.Records, time.Now()
				}
			},
			Task: func(streams.TaskID, string) {
				if records == rows && running.IsZero() {
					running, spent = time.Now(), processTime()-before
					end()
				}
			},
		},
	})
	require.NoError(b, err)
	require.NoError(b, a.Run(ctx))
	require.Equal(b, rows, records)
	c.restored += last.Sub(first)
	c.used += spent
	c.running += running.Sub(began)
	require.NoError(b, os.RemoveAll(dir))
}

// processTime is the processor time of this process.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
