package streams_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// parksThree leaves three records of two keys in the retry topic of an application that has ended.
func parksThree(b *bed, p func(...retry.Option) retry.Policy, app, in, out string) (*flaky, streams.Config) {
	b.t.Helper()
	f := newFlaky(map[string]int{"a1": -1, "b1": -1})
	c := b.config(app)
	r := b.run(through(f, p(retry.Backoff(time.Second, time.Minute), retry.Attempts(retry.Forever), retry.NoBreaker()), in, out), c)
	b.keyed(in, 0, "a1", "b1", "a2", "c1")
	r.until("a commit of all", func() bool { return b.offset(app, in, 0) == 4 })
	require.NoError(b.t, r.end())
	require.NotEmpty(b.t, b.parked(b.name(app+"-"+in+"-retry")))
	return f, c
}

func TestRegressionPolicyChangedWithRecordsParked(t *testing.T) {
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	f, c := parksThree(b, retry.KeyOrdered, "changed", in, out)
	soon(t)

	var pe *streams.ParkedError
	err := b.run(through(f, retry.Ordered(), in, out), c).fails()
	require.ErrorAs(t, err, &pe)
	require.Equal(t, streams.ParkedError{
		Topic: b.name("changed-" + in + "-retry"), Application: b.name("changed"), Source: in, Read: true, Records: map[string]int{in: 3},
	}, *pe)
	require.ErrorContains(t, err, "3 records")
	require.ErrorContains(t, err, "retry.DrainFirst()")
	require.ErrorContains(t, err, "understudy retry drain -app "+b.name("changed")+" -source "+in)

	other := b.topic("other", 1)
	err = b.run(through(f, retry.KeyOrdered(), other, out), c).fails()
	require.ErrorAs(t, err, &pe)
	require.False(t, pe.Read)
	require.ErrorContains(t, err, "does not have source")
}

// With DrainFirst they run before anything else, each key in its order.
func TestAppDrainsWhatAnEarlierPolicyHasPutAside(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]func(...retry.Option) retry.Policy{"keys": retry.KeyOrdered} {
		b := embeddedBed(t)
		in, out := b.topic("in", 1), b.topic("out", 1)
		f, c := parksThree(b, mode, name, in, out)
		b.keyed(in, 0, "a3", "d1")
		r := b.run(through(f, retry.Ordered(quick(retry.DrainFirst(), retry.Attempts(retry.Forever))...), in, out), c)
		n := f.tried("a1")
		r.until("more tries", func() bool { return f.tried("a1") > n+1 })
		require.Equal(t, []string{"c1"}, b.texts(out), "nothing passes")
		f.mend()
		r.until("all", func() bool { return len(b.texts(out)) == 6 })
		b.keyed(in, 0, "a4")
		r.until("what comes later", func() bool { return len(b.texts(out)) == 7 })
		require.NoError(t, r.end())
		got := b.texts(out)
		require.Equal(t, []string{"a1", "a2", "a3", "a4"}, slices.DeleteFunc(slices.Clone(got), func(v string) bool { return keyOf(v) != "a" }))
		require.Greater(t, slices.Index(got, "d1"), slices.Index(got, "b1"), "what was put aside comes first")
		require.Empty(t, b.parked(b.name(name+"-"+in+"-retry")))
		r = b.run(through(f, retry.Ordered(), in, out), c)
		r.ready()
		require.NoError(t, r.end(), "an empty retry topic is no obstacle")
	}
}

// both reads two topics in one subtopology.
func both(f *flaky, p retry.Policy, out string, topics ...string) *streams.Builder {
	sb := streams.NewBuilder()
	store := streams.NewStore("both", serde.String, serde.String)
	for _, in := range topics {
		sb.Stream(in, serde.String, serde.String, streams.OnFailure(p)).Process("of-"+in, func(i *streams.Init) streams.Processor[string, string, string, string] {
			store.Open(i)
			return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
				if err := f.call(r.Value); err != nil {
					return err
				}
				c.Forward(r)
				return nil
			})
		}, streams.WithStores(store)).To(out)
	}
	return sb
}

func TestRegressionSourceRemovedWithRecordsParked(t *testing.T) {
	b := embeddedBed(t)
	first, second, out := b.topic("first", 1), b.topic("second", 1), b.topic("out", 1)
	f := newFlaky(map[string]int{"a1": -1})
	c := b.config("removed")
	p := retry.Parallel(retry.Backoff(time.Second, time.Minute), retry.Attempts(retry.Forever))
	r := b.run(both(f, p, out, first, second), c)
	b.keyed(second, 0, "a1", "a2")
	r.until("a commit of all", func() bool { return b.offset("removed", second, 0) == 2 })
	require.NoError(t, r.end())

	soon(t)
	var pe *streams.ParkedError
	err := b.run(both(f, p, out, first), c).fails()
	require.ErrorAs(t, err, &pe)
	require.Equal(t, streams.ParkedError{
		Topic: b.name("removed-" + first + "-retry"), Application: b.name("removed"), Runs: true, Records: map[string]int{second: 1},
	}, *pe)
	require.ErrorContains(t, err, "-topic-of-record "+second)
}

// The names of "app" with a source "v2-in" and of "app-v2" with a source "in" are the same.
func TestRegressionRetryTopicOfAnotherApplicationIsNoObstacle(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	f, _ := parksThree(b, retry.Parallel, "app-v2", in, out)
	r := b.run(through(f, retry.Ordered(), b.topic("else", 1), out), b.config("app"))
	r.ready()
	require.NoError(t, r.end())
}

func TestRegressionRetryTopicThatDoesNotFit(t *testing.T) {
	b := embeddedBed(t)
	soon(t)
	in, out := b.topic("in", 2), b.topic("out", 1)
	for _, c := range []struct {
		name    string
		configs map[string]string
		want    streams.InternalTopicError
	}{
		{"policy", map[string]string{"cleanup.policy": "delete", "max.message.bytes": "2000000"}, streams.InternalTopicError{What: "cleanup.policy", Have: "delete", Want: "compact"}},
		{"small", map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1000"}, streams.InternalTopicError{What: "max.message.bytes", Have: "1000", Want: "1114124"}},
	} {
		topic := b.topicWith(c.name+"-"+in+"-retry", 2, c.configs)
		var ie *streams.InternalTopicError
		err := b.run(through(newFlaky(nil), retry.Parallel(), in, out), b.config(c.name)).fails()
		require.ErrorAs(t, err, &ie, c.name)
		c.want.Topic, c.want.Kind = topic, streams.RetryTopic
		require.Equal(t, c.want, *ie)
		require.ErrorContains(t, err, "--add-config "+c.want.What+"=")
	}
}

func TestRegressionRetryTopicThatIsNotAuthorised(t *testing.T) {
	for what, doing := range map[kmsg.Key]string{kmsg.DescribeConfigs: "read its configurations", kmsg.CreateTopics: "make it"} {
		b := embeddedBed(t)
		soon(t)
		in, out := b.topic("in", 1), b.topic("out", 1)
		topic := b.name("app-" + in + "-retry")
		if what == kmsg.DescribeConfigs {
			b.topicWith("app-"+in+"-retry", 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "2000000"})
		}
		denies(b, what, topic)
		var refused *streams.TopicRefusedError
		err := b.run(through(newFlaky(nil), retry.Parallel(), in, out), b.config("app")).fails()
		require.ErrorAs(t, err, &refused)
		require.Equal(t, topic, refused.Topic)
		require.Equal(t, streams.RetryTopic, refused.Kind)
		require.Equal(t, doing, refused.Doing)
		require.ErrorIs(t, err, kcode.TopicAuthorizationFailed)
		require.ErrorContains(t, err, "kafka-acls --add --topic "+topic)
	}
}

// denies lets the broker refuse a kind of request about a topic.
func denies(b *bed, what kmsg.Key, topic string) {
	cluster := b.embedded.Cluster()
	cluster.ControlKey(what.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		switch req := req.(type) {
		case *kmsg.DescribeConfigsRequest:
			if !slices.ContainsFunc(req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool { return r.ResourceName == topic }) {
				return nil, nil, false
			}
			res := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
			for _, r := range req.Resources {
				one := kmsg.NewDescribeConfigsResponseResource()
				one.ResourceType, one.ResourceName = r.ResourceType, r.ResourceName
				if r.ResourceName == topic {
					one.ErrorCode = int16(kcode.TopicAuthorizationFailed)
				}
				res.Resources = append(res.Resources, one)
			}
			return res, nil, true
		case *kmsg.CreateTopicsRequest:
			res := req.ResponseKind().(*kmsg.CreateTopicsResponse)
			for _, r := range req.Topics {
				one := kmsg.NewCreateTopicsResponseTopic()
				one.Topic, one.ErrorCode = r.Topic, int16(kcode.TopicAuthorizationFailed)
				res.Topics = append(res.Topics, one)
			}
			return res, nil, true
		}
		return nil, nil, false
	})
}
