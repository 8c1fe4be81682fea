package streams_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
)

// refusing is a bed whose brokers answer whatever is written to one topic with an error, while there is one.
func refusing(t *testing.T) (b *bed, refuse func(topic string, err *kerr.Error), met *atomic.Int64) {
	e, err := broker.Start(broker.Options{})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	type refusal struct {
		topic string
		code  int16
	}
	var now atomic.Pointer[refusal]
	met = &atomic.Int64{}
	e.Cluster().ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := now.Load()
		e.Cluster().KeepControl()
		p := req.(*kmsg.ProduceRequest)
		if r == nil {
			return nil, nil, false
		}
		res := p.ResponseKind().(*kmsg.ProduceResponse)
		found := false
		for _, topic := range p.Topics {
			found = found || topic.Topic == r.topic
			out := kmsg.NewProduceResponseTopic()
			out.Topic = topic.Topic
			for _, part := range topic.Partitions {
				o := kmsg.NewProduceResponseTopicPartition()
				o.Partition, o.ErrorCode = part.Partition, kerr.NotEnoughReplicas.Code // of the others nothing is known
				if topic.Topic == r.topic {
					o.ErrorCode = r.code
				}
				out.Partitions = append(out.Partitions, o)
			}
			res.Topics = append(res.Topics, out)
		}
		if !found {
			return nil, nil, false
		}
		met.Add(1)
		return res, nil, true
	})
	return newBed(t, e.Addrs(), e), func(topic string, err *kerr.Error) {
		if err == nil {
			now.Store(nil)
			return
		}
		now.Store(&refusal{topic, err.Code})
	}, met
}

// What a broker does not take of the retry topic is not done: no offset goes past it, and the error says which topic it is and what helps.
func TestRegressionRetryTopicThatTakesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    *kerr.Error
		remedy string
	}{
		{kerr.RecordListTooLarge, "max.message.bytes"}, {kerr.PolicyViolation, "allow the application to write"}, {kerr.TopicAuthorizationFailed, "WRITE"},
		{kerr.InvalidRecord, "configuration"},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			t.Parallel()
			b, refuse, _ := refusing(t)
			in, out := b.topic("in", 1), b.topic("out", 1)
			topic := b.name("full-" + in + "-retry")
			f := newFlaky(map[string]int{"a1": 1})
			// Also with a policy for produce: a row of a store is no result of a record.
			p := retry.KeyOrdered(quick(retry.OnProduce(retry.Ordered(retry.ThenSkip())))...)
			r := b.run(through(f, p, in, out), b.config("full"))
			b.keyed(in, 0, "b1")
			r.until("it to run", func() bool { return b.offset("full", in, 0) == 1 })
			refuse(topic, c.err)
			b.keyed(in, 0, "a1", "b2")
			err := r.fails()
			var refused *streams.ProduceError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, topic)
			require.ErrorContains(t, err, c.remedy)
			require.Equal(t, int64(1), b.offset("full", in, 0))
			refuse("", nil)
			again := b.run(through(f, p, in, out), b.config("full"))
			again.until("all of it", func() bool { return b.offset("full", in, 0) == 3 && len(b.parked(topic)) == 0 })
			require.Subset(t, b.texts(out), []string{"b1", "a1", "b2"})
			require.NoError(t, again.end())
		})
	}
}

// A quota is waited for: nothing ends, and no offset goes past what is not written.
func TestRegressionRetryTopicBehindAQuota(t *testing.T) {
	t.Parallel()
	b, refuse, met := refusing(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	topic := b.name("quota-" + in + "-retry")
	r := b.run(through(newFlaky(map[string]int{"a1": 1}), retry.KeyOrdered(quick()...), in, out), b.config("quota"))
	b.keyed(in, 0, "b1")
	r.until("it to run", func() bool { return b.offset("quota", in, 0) == 1 })
	refuse(topic, kerr.ThrottlingQuotaExceeded)
	b.keyed(in, 0, "a1", "b2")
	r.until("the quota to be met", func() bool { return met.Load() >= 3 })
	require.Equal(t, int64(1), b.offset("quota", in, 0))
	refuse("", nil)
	r.until("all of it", func() bool { return b.offset("quota", in, 0) == 3 && len(b.tolerantlyParked(topic)) == 0 })
	require.NoError(t, r.end())
	require.ElementsMatch(t, []string{"b1", "a1", "b2"}, b.texts(out))
}
