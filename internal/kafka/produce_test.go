package kafka

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func TestSequences(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p := producer(t, c, tp)
		pid, epoch := producerID(t, c)
		batch := func(seq int32, epoch int16, records ...task.OutRecord) ProducedPart {
			b := plainBatch(tp, records...)
			b.ProducerID, b.Epoch, b.FirstSequence = pid, epoch, seq
			return send(t, p, b)[0]
		}
		require.Equal(t, kcode.None, batch(0, epoch, numbered(3)...).Code)
		second := batch(3, epoch, numbered(2)...)
		require.Equal(t, int64(3), second.BaseOffset)

		again := batch(3, epoch, numbered(2)...)
		require.Equal(t, second, again, "the same batch again: its old offset, nothing appended")

		gap := batch(9, epoch, numbered(1)...)
		require.Equal(t, kcode.OutOfOrderSequence, gap.Code)
		require.Equal(t, int64(-1), gap.BaseOffset)

		require.Equal(t, kcode.None, batch(0, epoch+1, numbered(1)...).Code, "a new epoch begins at 0")
		require.Equal(t, kcode.InvalidProducerEpoch, batch(5, epoch, numbered(1)...).Code)

		ends, err := c.ListOffsets(within(t), Latest, []task.TopicPartition{tp})
		require.NoError(t, err)
		require.Equal(t, int64(6), ends[tp].Offset)
	})
}

// A broker takes an id that it never gave, and any higher epoch of it; batches of a lower one are refused from then on, whoever sends them and
// whatever their sequence. This keeps late writes of past owners out of changelogs.
func TestEpochsOfAnIDThatNoBrokerGave(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		name := k.topic(t, c, 2, map[string]string{"cleanup.policy": "compact"})
		first, second := task.TopicPartition{Topic: name}, task.TopicPartition{Topic: name, Partition: 1}
		p := producer(t, c, first)
		write := func(tp task.TopicPartition, pid int64, epoch int16, seq int32, n int) kcode.Code {
			b := plainBatch(tp, numbered(n)...)
			b.ProducerID, b.Epoch, b.FirstSequence = pid, epoch, seq
			return send(t, p, b)[0].Code
		}
		const pid = 1<<62 | 0x1234567
		require.Equal(t, kcode.None, write(first, pid, 3, 0, 4))
		require.Equal(t, kcode.None, write(first, pid, 3, 4, 1))
		require.Equal(t, kcode.None, write(first, pid, 16000, 0, 1), "epochs are left out as it likes")
		require.Equal(t, kcode.InvalidProducerEpoch, write(first, pid, 3, 5, 2), "the next sequence of the epoch before")
		require.Equal(t, kcode.InvalidProducerEpoch, write(first, pid, 4, 0, 2), "one that never wrote")
		require.Equal(t, kcode.None, write(first, pid, 16000, 1, 1))
		require.Equal(t, kcode.None, write(second, pid+1, 2, 0, 1), "another partition has an id of its own")
		const forgotten = pid + 2 // brokers forget a writer after producer.id.expiration.ms, a day
		require.Equal(t, kcode.None, write(second, forgotten, 2, 8, 1), "one that it does not know may go on anywhere")
		require.Equal(t, kcode.None, write(second, forgotten, 2, 9, 1))
		ends, err := c.ListOffsets(within(t), Latest, []task.TopicPartition{first})
		require.NoError(t, err)
		require.Equal(t, int64(7), ends[first].Offset)
	})
}

func producerID(t *testing.T, c *Client) (pid int64, epoch int16) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		pid, epoch, err = c.InitProducerID(within(t))
		require.True(t, err == nil || errors.Is(err, kcode.CoordinatorLoadInProgress), "%v", err)
		return err == nil
	}, 30*time.Second, 50*time.Millisecond)
	return pid, epoch
}

func TestRequestsArePipelinedInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p := producer(t, c, tp)
		pid, epoch := producerID(t, c)
		got := make(chan int64, 40)
		group := task.NewGroup(tp, numbered(10)...)
		for i := range 40 {
			b := ProduceBatch{TopicPartition: tp, ProducerID: pid, Epoch: epoch, FirstSequence: int32(i * 10), Groups: []*task.Group{group}}
			require.NoError(t, p.Produce(ProduceRequest{Acks: -1, Timeout: 10 * time.Second, Batches: []ProduceBatch{b}}, func(r ProduceResponse, err error) {
				if err != nil || r.Parts[0].Code != kcode.None {
					got <- -1
					return
				}
				got <- r.Parts[0].BaseOffset
			}))
			group.Record(0).Value[0] = 'x' // changed after Produce has returned
			group.Record(0).Value[0] = '0'
		}
		for i := range 40 {
			require.Equal(t, int64(i*10), <-got)
		}
	})
}

func TestARecordThatTheBrokerRefusesIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real broker")
	}
	onBoth(t, func(t *testing.T, k cluster) {
		if !k.real {
			t.Skip("the embedded broker refuses nothing")
		}
		c := k.client(t)
		compacted := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"cleanup.policy": "compact"})}
		p := producer(t, c, compacted)
		part := send(t, p, plainBatch(compacted, task.OutRecord{Key: []byte("k")}, task.OutRecord{Value: []byte("no key")}))[0]
		require.Equal(t, kcode.InvalidRecord, part.Code)
		require.Equal(t, []int{1}, part.BadRecords)
		require.NotEmpty(t, part.Message)

		plain := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		future := time.Now().Add(48 * time.Hour).UnixMilli()
		part = send(t, p, plainBatch(plain, task.OutRecord{Value: []byte("v")}, task.OutRecord{Value: []byte("v"), Timestamp: future}))[0]
		require.Equal(t, kcode.InvalidTimestamp, part.Code)
		require.Equal(t, []int{1}, part.BadRecords)

		small := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"max.message.bytes": "1000"})}
		part = send(t, p, plainBatch(small, task.OutRecord{Value: make([]byte, 2000)}))[0]
		require.Equal(t, kcode.MessageTooLarge, part.Code)
	})
}

func TestWithoutAcknowledgement(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p := producer(t, c, tp)
		done := make(chan ProduceResponse, 1)
		req := ProduceRequest{Acks: 0, Batches: []ProduceBatch{plainBatch(tp, numbered(2)...)}}
		require.NoError(t, p.Produce(req, func(r ProduceResponse, err error) { done <- r }))
		require.Equal(t, ProduceResponse{Parts: []ProducedPart{{TopicPartition: tp, BaseOffset: -1}}}, <-done)
		require.Equal(t, int64(2), mustSend(t, p, tp, numbered(1)...), "the connection goes on")
	})
}

func TestProduceRefusesWhatCannotBeSent(t *testing.T) {
	k := embedded(t, broker0)
	c := k.client(t)
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
	p := producer(t, c, tp)
	never := func(ProduceResponse, error) { t.Error("done was called for what was refused") }
	odd := plainBatch(tp, numbered(1)...)
	odd.Codec = 7
	for _, v := range []struct {
		name    string
		batches []ProduceBatch
		want    string
	}{
		{name: "no batch", want: "without a batch"},
		{name: "no record", batches: []ProduceBatch{plainBatch(tp)}, want: "has no record"},
		{name: "twice", batches: []ProduceBatch{plainBatch(tp, numbered(1)...), plainBatch(tp, numbered(1)...)}, want: "two batches for " + tp.String()},
		{name: "codec", batches: []ProduceBatch{odd}, want: "codec 7 is unknown"},
	} {
		t.Run(v.name, func(t *testing.T) {
			require.ErrorContains(t, p.Produce(ProduceRequest{Acks: -1, Batches: v.batches}, never), v.want)
		})
	}
	require.Equal(t, int64(0), mustSend(t, p, tp, numbered(1)...), "the connection is as good as before")
}

func TestCloseAnswersWhatIsOut(t *testing.T) {
	k := embedded(t, broker0)
	c := k.client(t)
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
	p := producer(t, c, tp)
	seen := make(chan struct{}, 1)
	k.fake.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		seen <- struct{}{}
		return nil, nil, true // never answered
	})
	var answers atomic.Int64
	for range 3 {
		require.NoError(t, p.Produce(ProduceRequest{Acks: -1, Batches: []ProduceBatch{plainBatch(tp, numbered(1)...)}}, func(_ ProduceResponse, err error) {
			if errors.Is(err, ErrClosed) {
				answers.Add(1)
			}
		}))
	}
	<-seen
	p.Close()
	require.Equal(t, int64(3), answers.Load())
	require.ErrorIs(t, p.Produce(ProduceRequest{Batches: []ProduceBatch{plainBatch(tp, numbered(1)...)}}, nil), ErrClosed)
	p.Close() // twice is once
}

func TestALostConnectionIsTold(t *testing.T) {
	k := embedded(t, broker0)
	c := k.client(t)
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
	p := producer(t, c, tp)
	k.fake.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("cut"), true
	})
	done := make(chan error, 1)
	require.NoError(t, p.Produce(ProduceRequest{Acks: -1, Batches: []ProduceBatch{plainBatch(tp, numbered(1)...)}}, func(_ ProduceResponse, err error) { done <- err }))
	err := <-done
	var transport *TransportError
	require.True(t, errors.As(err, &transport))
	require.Equal(t, "Produce", transport.Request)
	require.Equal(t, k.addrs[0], transport.Broker)
	require.NotErrorIs(t, err, ErrClosed)
	require.Equal(t, err, p.Produce(ProduceRequest{Batches: []ProduceBatch{plainBatch(tp, numbered(1)...)}}, nil), "a dead connection stays dead")
}
