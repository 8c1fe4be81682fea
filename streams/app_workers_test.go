package streams_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Records of many keys wait for something outside, some fail now and then, and all of them are counted: beside each other, each key in its order.
func TestAppWorkersKeepTheOrderOfKeysAndCountExactly(t *testing.T) {
	t.Parallel()
	const keys, each = 20, 15
	b := embeddedBed(t)
	in, to := b.topic("in", 2), b.topic("out", 1)
	c := b.config("workers")
	c.OnFailure = retry.KeyOrdered(retry.Workers(8), retry.Attempts(retry.Forever), retry.Backoff(time.Millisecond, 5*time.Millisecond))
	var mu sync.Mutex
	seen := map[string][]string{}
	failed := map[string]bool{}
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.String).
		TryMapValues("call", func(ctx context.Context, r streams.Record[string, string]) (string, error) {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if id := r.Key + r.Value; len(r.Value)%3 == 0 && !failed[id] {
				failed[id] = true
				return "", errors.New("not this time")
			}
			seen[r.Key] = append(seen[r.Key], r.Value)
			return r.Value, nil
		}).
		GroupByKey().Count("counts").ToStream().To(to)
	for i := range each {
		var rs [2][]task.OutRecord
		for k := range keys {
			rs[k%2] = append(rs[k%2], task.OutRecord{
				Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Appendf(nil, "%0*d", 1+i%4, i), Timestamp: int64(1000 + i),
			})
		}
		for p := range rs {
			b.put(in, int32(p), rs[p]...)
		}
	}
	r := b.run(sb, c)
	r.until("all are counted", func() bool {
		counts := b.counts(to)
		for k := range keys {
			if counts[fmt.Sprint("k", k)] != each {
				return false
			}
		}
		return true
	})
	require.NoError(t, r.end())
	for p := range int32(2) {
		require.EqualValues(t, keys*each/2, b.committed(c.ApplicationID)[task.TopicPartition{Topic: in, Partition: p}])
	}
	for k, values := range seen {
		require.Len(t, values, each, k)
		for i, v := range values {
			require.Equal(t, fmt.Sprintf("%0*d", 1+i%4, i), v, "%s: %v", k, values)
		}
	}
}
