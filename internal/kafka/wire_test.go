package kafka

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// canned is a connection whose broker answers the first request with the given bytes and hangs up.
func canned(t *testing.T, answer []byte) *dataConn {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer theirs.Close()
		var size [4]byte
		if _, err := io.ReadFull(theirs, size[:]); err == nil {
			if _, err := io.CopyN(io.Discard, theirs, int64(getInt32(size[:]))); err == nil {
				_, _ = theirs.Write(answer) // the other side may hang up in the middle
			}
		}
	}()
	t.Cleanup(func() { ours.Close(); <-served })
	s, err := newSettings(Config{Brokers: []string{"h:1"}}.withDefaults())
	require.NoError(t, err)
	k := &conn{addr: "h:1", dialer: &keepDialer{settings: s, raw: ours}}
	return &dataConn{conn: k, nc: ours, client: "c", timeout: 10 * time.Second, frame: frame{r: bufio.NewReader(ours)}}
}

func TestAnAnswerThatBreaksTheProtocol(t *testing.T) {
	good := fetchAnswer(0, encoded(t, 3, None, numbered(3)...))
	cut := func(n int) []byte { return framed(1, good[:n]) }
	at := func(i int, v ...byte) []byte {
		return framed(1, append(append(append([]byte{}, good[:i]...), v...), good[i+len(v):]...))
	}
	for _, v := range []struct {
		name   string
		answer []byte
		want   string
	}{
		{name: "nothing", want: "EOF"},
		{name: "size too large", answer: []byte{0x7f, 0, 0, 0, 0, 0, 0, 1}, want: "size 2130706432"},
		{name: "size too small", answer: []byte{0, 0, 0, 1, 0, 0, 0, 1}, want: "size 1"},
		{name: "of another request", answer: framed(9, good), want: "correlation id 9, expected 1"},
		{name: "hangs up", answer: framed(1, good)[:40], want: "unexpected EOF"},
		{name: "hangs up in the records", answer: framed(1, good)[:120], want: "unexpected EOF"},
		{name: "ends early", answer: cut(9), want: "ends early"},
		{name: "bytes after it", answer: framed(1, append(append([]byte{}, good...), 0, 0)), want: "2 bytes left over"},
		{name: "too many topics", answer: at(10, 0x10), want: "array of"},
		{name: "negative array", answer: at(10, 0x80), want: "array of"},
		{name: "long topic", answer: at(14, 0x70), want: "string of 28673 bytes"},
		{name: "negative string", answer: at(14, 0x80), want: "string of"},
		{name: "other topic", answer: at(16, 'x'), want: "partition x-4 was not asked for"},
		{name: "other partition", answer: at(24, 9), want: "partition t-9 was not asked for"},
		{name: "a partition twice", answer: framed(1, fetchAnswer(0, encoded(t, 2, None, numbered(1)...), encoded(t, 2, None, numbered(3)...))), want: "partition t-4 was not asked for, or is there twice"},
		{name: "more records than bytes", answer: at(75, 0x7f), want: "bytes in"},
	} {
		t.Run(v.name, func(t *testing.T) {
			f := &FetchConn{data: canned(t, v.answer)}
			req := FetchRequest{Parts: []FetchPart{{TopicPartition: someTP, Offset: 2, MaxBytes: 1}}}
			_, err := f.Fetch(req)
			var transport *TransportError
			require.ErrorAs(t, err, &transport)
			require.ErrorContains(t, err, v.want)
			require.ErrorContains(t, err, "Fetch to broker h:1")
			_, err = f.Fetch(req)
			require.ErrorIs(t, err, ErrClosed, "where its stream is nobody knows")
		})
	}
	t.Run("none", func(t *testing.T) {
		f := &FetchConn{data: canned(t, framed(1, good))}
		res, err := f.Fetch(FetchRequest{Parts: []FetchPart{{TopicPartition: someTP, Offset: 4, MaxBytes: 1}}})
		require.NoError(t, err)
		require.Equal(t, []int64{4, 5}, offsets(records(res.Parts[0].Batch)))
		require.Equal(t, int64(20), res.Parts[0].Batch.HighWatermark)
	})
}

func TestAProduceAnswerThatBreaksTheProtocol(t *testing.T) {
	part := func(number int32, code int16) []byte {
		b := appendInt64(appendInt16(appendInt32(nil, number), code), 7)
		return appendInt16(appendInt32(appendInt64(appendInt64(b, -1), 0), 0), -1)
	}
	answer := func(parts ...[]byte) []byte {
		b := appendInt32(appendString(appendInt32(nil, 1), someTP.Topic), int32(len(parts)))
		for _, p := range parts {
			b = append(b, p...)
		}
		return framed(1, appendInt32(b, 0))
	}
	for _, v := range []struct {
		name   string
		answer []byte
		want   string
	}{
		{name: "good", answer: answer(part(4, 0))},
		{name: "nothing", answer: answer(), want: "0 of 1 partitions"},
		{name: "another", answer: answer(part(5, 0)), want: "t-5 was not asked for"},
		{name: "twice", answer: answer(part(4, 0), part(4, 0)), want: "is there twice"},
	} {
		t.Run(v.name, func(t *testing.T) {
			p := &ProduceConn{data: canned(t, v.answer), ended: make(chan struct{}), calls: make(chan produceCall, 1)}
			go p.answers()
			done := make(chan error, 1)
			require.NoError(t, p.Produce(ProduceRequest{Acks: -1, Batches: []ProduceBatch{plainBatch(someTP, numbered(1)...)}}, func(_ ProduceResponse, err error) { done <- err }))
			err := <-done
			close(p.calls)
			<-p.ended
			if v.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errMalformed)
			require.ErrorContains(t, err, v.want)
		})
	}
}

func TestOlderBrokers(t *testing.T) {
	pose := func(v *kversion.Versions) cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(v))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return cluster{addrs: c.ListenAddrs()}
	}
	t.Run("2.5 has everything", func(t *testing.T) {
		k := pose(kversion.V2_5_0())
		c := k.client(t)
		useAll(t, k, c)
		_, _, err := c.InitProducerID(within(t))
		require.NoError(t, err)
	})
	t.Run("2.3 is too old", func(t *testing.T) {
		k := pose(kversion.V2_3_0())
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		_, err := c.DialProduce(within(t), leader(t, c, tp).Leader)
		require.ErrorContains(t, err, k.addrs[0])
		require.ErrorContains(t, err, "use Kafka 2.4 or later")
	})
}

func TestErrorsSayWhereAndWhat(t *testing.T) {
	err := error(&ResponseError{Broker: "h:1", Request: "InitProducerID", Code: kcode.ClusterAuthorization, Message: "no"})
	require.EqualError(t, err, "kafka: InitProducerID answered by broker h:1: CLUSTER_AUTHORIZATION_FAILED (31): no")
	require.ErrorIs(t, err, kcode.ClusterAuthorization)
}

// An array whose length the answer's size allows may still end with the connection: what does not come takes no memory.
func TestAnArrayThatBreaksOff(t *testing.T) {
	answer := func(head []byte) *dataConn {
		b := appendInt32(nil, 200<<20)
		b = appendInt32(b, 1)
		return canned(t, append(b, head...))
	}
	t.Run("fetch", func(t *testing.T) {
		b := appendInt32(nil, 0) // throttle
		b = appendInt16(b, 0)    // code
		b = appendInt32(b, 0)    // session
		b = appendInt32(b, 1)    // topics
		b = appendString(b, "t")
		b = appendInt32(b, 1) // partitions
		b = appendInt32(b, 4) // partition
		b = appendInt16(b, 0)
		b = append(b, make([]byte, 24)...)
		b = appendInt32(b, 10<<20) // aborted transactions
		f := &FetchConn{data: answer(b)}
		_, err := f.Fetch(FetchRequest{Parts: []FetchPart{{TopicPartition: someTP}}})
		require.Error(t, err)
		require.Less(t, cap(f.aborted), 100)
	})
	t.Run("produce", func(t *testing.T) {
		b := appendInt32(nil, 4) // partition
		b = append(b, make([]byte, 26)...)
		b = appendInt32(b, 20<<20) // bad records
		f := &frame{r: bufio.NewReader(bytes.NewReader(b)), left: 200 << 20}
		require.Less(t, cap(readProducedPart(f).BadRecords), 100)
		require.Error(t, f.err)
	})
}
