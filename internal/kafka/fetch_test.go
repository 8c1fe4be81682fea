package kafka

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var broker0 = broker.Options{}

func numbered(n int) []task.OutRecord {
	out := make([]task.OutRecord, n)
	for i := range out {
		out[i] = task.OutRecord{Key: []byte("k"), Value: fmt.Append(nil, i), Timestamp: int64(i + 1)}
	}
	return out
}

func offsets(records []task.Record) []int64 {
	var out []int64
	for _, r := range records {
		out = append(out, r.Offset)
	}
	return out
}

func TestFetchBeginsAtTheOffsetInTheMiddleOfABatch(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p, f := producer(t, c, tp), fetcher(t, c, tp)
		mustSend(t, p, tp, numbered(10)...)
		mustSend(t, p, tp, numbered(3)...)
		part := fetchOnce(t, f, FetchPart{TopicPartition: tp, Offset: 7, LeaderEpoch: -1}, false)
		require.Equal(t, []int64{7, 8, 9, 10, 11, 12}, offsets(records(part.Batch)))
		require.Equal(t, int64(13), part.Batch.Next)
		require.Equal(t, int64(0), part.LogStart)

		end := fetchOnce(t, f, FetchPart{TopicPartition: tp, Offset: 13, LeaderEpoch: -1}, false)
		require.Equal(t, kcode.None, end.Code)
		require.Empty(t, records(end.Batch))
		require.Equal(t, int64(13), end.Batch.Next, "nothing came, nothing moves")
	})
}

func TestFetchCodes(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p, f := producer(t, c, tp), fetcher(t, c, tp)
		mustSend(t, p, tp, numbered(5)...)
		require.NoError(t, k.tools.DeleteRecords(within(t), tp, 3))
		epoch := leader(t, c, tp).LeaderEpoch
		for _, v := range []struct {
			name string
			part FetchPart
			want kcode.Code
		}{
			{name: "behind the end", part: FetchPart{TopicPartition: tp, Offset: 6, LeaderEpoch: epoch}, want: kcode.OffsetOutOfRange},
			{name: "deleted", part: FetchPart{TopicPartition: tp, Offset: 2, LeaderEpoch: epoch}, want: kcode.OffsetOutOfRange},
			{name: "epoch of the future", part: FetchPart{TopicPartition: tp, Offset: 3, LeaderEpoch: epoch + 7}, want: kcode.UnknownLeaderEpoch},
			{name: "no such topic", part: FetchPart{TopicPartition: task.TopicPartition{Topic: "nobody"}, LeaderEpoch: -1}, want: kcode.UnknownTopicOrPartition},
			{name: "no such partition", part: FetchPart{TopicPartition: task.TopicPartition{Topic: tp.Topic, Partition: 9}, LeaderEpoch: -1}, want: kcode.UnknownTopicOrPartition},
			{name: "right", part: FetchPart{TopicPartition: tp, Offset: 3, LeaderEpoch: epoch}, want: kcode.None},
		} {
			t.Run(v.name, func(t *testing.T) {
				part := fetchOnce(t, f, v.part, false)
				require.Equal(t, v.want, part.Code)
				require.Equal(t, v.want == kcode.None, part.Batch != nil)
			})
		}
	})
}

func TestCompactionLeavesHoles(t *testing.T) {
	k := embedded(t, broker0)
	c := k.client(t)
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"cleanup.policy": "compact"})}
	for _, key := range []string{"x", "a", "b", "a", "c"} {
		require.NoError(t, k.tools.Produce(within(t), tp, task.OutRecord{Key: []byte(key), Value: []byte("v"), Timestamp: time.Now().UnixMilli()}))
	}
	k.fake.Cluster().Compact()
	f := fetcher(t, c, tp)
	require.Equal(t, []int64{0, 2, 3, 4}, offsets(fetchTo(t, f, tp, 0, 5, -1, false)))
	part := fetchOnce(t, f, FetchPart{TopicPartition: tp, Offset: 1, LeaderEpoch: -1}, false)
	require.Equal(t, []int64{2, 3, 4}, offsets(records(part.Batch)), "an offset that is gone is no error inside the log")
	require.Equal(t, int64(5), part.Batch.Next)
}

// awaitEnd waits until a partition ends at an offset. Markers are written after the end of a transaction was answered, so what follows one would
// otherwise overtake them now and then.
func awaitEnd(t *testing.T, c *Client, at At, tp task.TopicPartition, want int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		ends, err := c.ListOffsets(within(t), at, []task.TopicPartition{tp})
		return err == nil && ends[tp] == ListedOffset{Offset: want}
	}, 20*time.Second, 10*time.Millisecond)
}

func TestTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		transact := func(id string, commit bool, records int, end int64) {
			require.NoError(t, k.tools.Transact(within(t), tp.Topic+id, commit, tp, numbered(records)...))
			awaitEnd(t, c, Latest, tp, end)
		}
		mustSend(t, producer(t, c, tp), tp, numbered(2)...) // 0, 1
		transact("-a", true, 2, 5)                          // 2, 3, marker 4
		transact("-b", false, 3, 9)                         // 5, 6, 7, marker 8
		transact("-b", true, 1, 11)                         // 9, marker 10
		transact("-c", false, 1, 13)                        // 11, marker 12
		awaitEnd(t, c, Stable, tp, 13)

		f := fetcher(t, c, tp)
		require.Equal(t, []int64{0, 1, 2, 3, 5, 6, 7, 9, 11}, offsets(fetchTo(t, f, tp, 0, 13, -1, false)))
		require.Equal(t, []int64{0, 1, 2, 3, 9}, offsets(fetchTo(t, f, tp, 0, 13, -1, true)))
		require.Equal(t, []int64{9}, offsets(fetchTo(t, f, tp, 6, 13, -1, true)), "from inside an aborted transaction")
		require.Empty(t, fetchTo(t, f, tp, 10, 13, -1, true), "only markers and aborted records: the position moves all the same")
	})
}

func TestOverlappingTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		outer := k.openTransaction(t, tp, numbered(1))                                            // 0
		require.NoError(t, k.tools.Transact(within(t), tp.Topic+"-a", false, tp, numbered(2)...)) // 1, 2, marker 3
		awaitEnd(t, c, Latest, tp, 4)
		require.NoError(t, k.tools.Transact(within(t), tp.Topic+"-b", true, tp, numbered(1)...)) // 4, marker 5
		awaitEnd(t, c, Latest, tp, 6)
		outer(kgo.TryAbort) // marker 6
		awaitEnd(t, c, Latest, tp, 7)
		mustSend(t, producer(t, c, tp), tp, numbered(1)...) // 7
		awaitEnd(t, c, Stable, tp, 8)
		f := fetcher(t, c, tp)
		require.Equal(t, []int64{4, 7}, offsets(fetchTo(t, f, tp, 0, 8, -1, true)))
		require.Equal(t, []int64{0, 1, 2, 4, 7}, offsets(fetchTo(t, f, tp, 0, 8, -1, false)))
	})
}

func TestAnOpenTransactionIsNotRead(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		mustSend(t, producer(t, c, tp), tp, numbered(1)...)
		ends := func(at At) int64 {
			m, err := c.ListOffsets(within(t), at, []task.TopicPartition{tp})
			require.NoError(t, err)
			require.NoError(t, m[tp].Err)
			return m[tp].Offset
		}
		end := k.openTransaction(t, tp, numbered(2))
		require.Equal(t, int64(3), ends(Latest))
		require.Equal(t, int64(1), ends(Stable))
		f := fetcher(t, c, tp)
		part := fetchOnce(t, f, FetchPart{TopicPartition: tp, LeaderEpoch: -1}, true)
		require.Equal(t, []int64{0}, offsets(records(part.Batch)))
		require.Equal(t, int64(1), part.Batch.Next)
		require.Equal(t, int64(1), part.LastStable)
		end(kgo.TryCommit)
		awaitEnd(t, c, Stable, tp, 4)
		require.Equal(t, []int64{1, 2}, offsets(fetchTo(t, f, tp, 1, 4, -1, true)))
	})
}

func TestADeletedTopicIsAnswered(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p, f := producer(t, c, tp), fetcher(t, c, tp)
		mustSend(t, p, tp, numbered(1)...)
		require.NoError(t, k.tools.DeleteTopic(within(t), tp.Topic))
		require.Eventually(t, func() bool {
			return fetchOnce(t, f, FetchPart{TopicPartition: tp, LeaderEpoch: -1}, false).Code == kcode.UnknownTopicOrPartition
		}, 20*time.Second, 20*time.Millisecond)
		require.Equal(t, kcode.UnknownTopicOrPartition, send(t, p, plainBatch(tp, numbered(1)...))[0].Code)
		m, err := c.Metadata(within(t), []string{tp.Topic})
		require.NoError(t, err)
		require.Equal(t, kcode.UnknownTopicOrPartition, m.Topics[tp.Topic].Err, "asking does not create it again")
	})
}

func TestCloseEndsAFetch(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		f := fetcher(t, c, tp)
		done := make(chan error, 1)
		began := make(chan struct{})
		go func() {
			close(began)
			_, err := f.Fetch(FetchRequest{MaxWait: 30 * time.Second, MinBytes: 1, MaxBytes: 1000, Parts: []FetchPart{{TopicPartition: tp, LeaderEpoch: -1, MaxBytes: 1000}}})
			done <- err
		}()
		<-began
		f.Close()
		select {
		case err := <-done:
			require.ErrorIs(t, err, ErrClosed)
			var transport *TransportError
			require.True(t, errors.As(err, &transport))
			require.Equal(t, "Fetch", transport.Request)
		case <-time.After(10 * time.Second):
			t.Fatal("Fetch goes on after Close")
		}
		_, err := f.Fetch(FetchRequest{Parts: []FetchPart{{TopicPartition: tp}}})
		require.ErrorIs(t, err, ErrClosed, "a closed connection stays closed")
	})
}
