package streams_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// failingOn fails for records with the value "bad", and sends the others on.
func failingOn(in, out string, bad *atomic.Bool) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.String).TryPeek("fallible", func(_ context.Context, r textRecord) error {
		if r.Value == "bad" && bad.Load() {
			return errors.New("refused")
		}
		return nil
	}).To(out)
	return b
}

// A record that fails is put aside and seen from outside; its neighbours pass. In the end it is a dead letter.
func TestFailuresAreSeenFromOutside(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	var bad atomic.Bool
	bad.Store(true)
	letters := make(chan *streams.RecordError, 1)
	c := b.config("app")
	c.OnFailure = retry.Parallel(retry.Attempts(2), retry.Backoff(2*time.Second, 2*time.Second), retry.ThenDeadLetter(), retry.NoBreaker())
	c.Listener.DeadLetter = func(e *streams.RecordError) { letters <- e }
	r := b.run(failingOn(in, out, &bad), c)
	r.ready()
	b.values(in, 0, "bad", "good")
	r.until("the good one", func() bool { return len(b.all(out)) == 1 })

	tasks := r.app.Tasks()
	require.Len(t, tasks, 1)
	require.NotNil(t, tasks[0].Failures)
	require.Equal(t, 1, tasks[0].Failures.Parked)
	e, err := r.app.Explain(b.ctx(), in, 0, 0)
	require.NoError(t, err)
	require.Equal(t, streams.RecordParked, e.State)
	require.Equal(t, "fallible", e.Node)
	require.Equal(t, "refused", e.Error)
	_, err = r.app.Explain(b.ctx(), in, 7, 0)
	require.ErrorIs(t, err, streams.ErrNotHere)
	_, err = r.app.Explain(b.ctx(), "other", 0, 0)
	require.ErrorContains(t, err, `topic "other" is not read`)

	failed := <-letters
	require.Equal(t, 2, failed.Attempts)
	require.EqualValues(t, 0, failed.Offset)
	dlq := b.name("app") + "-" + in + "-dlq"
	r.until("the dead letter", func() bool { return len(b.all(dlq)) == 1 })
	var headers []retry.Header
	for _, h := range b.all(dlq)[0].Headers {
		headers = append(headers, retry.Header(h))
	}
	letter, _, ok := retry.ParseLetter(headers)
	require.True(t, ok)
	require.Equal(t, retry.Origin{Topic: in}, letter.Origin)

	bad.Store(false)
	back, err := retry.Redrive(headers)
	require.NoError(t, err)
	rec := b.all(dlq)[0]
	redriven := task.OutRecord{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp}
	for _, h := range back {
		redriven.Headers = append(redriven.Headers, streams.Header(h))
	}
	b.put(b.name("app")+"-"+in+"-redrive", 0, redriven)
	r.until("the redriven one", func() bool { return len(b.all(out)) == 2 })
	require.NoError(t, r.end())
}

// What holds whole records takes the largest that its source takes, and what the runtime says of it.
func TestTopicsOfFailuresTakeWhatTheirSourcesTake(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	require.NoError(t, b.client.CreateTopic(b.ctx(), b.name("large"), 2, map[string]string{"max.message.bytes": "5000000"}))
	in, out := b.name("large"), b.topic("out", 1)
	c := b.config("app")
	c.OnFailure = retry.KeyOrdered(retry.ThenDeadLetter())
	var never atomic.Bool
	r := b.run(failingOn(in, out, &never), c)
	r.ready()
	for _, suffix := range []string{"-retry", "-dlq", "-redrive"} {
		have := b.configs(b.name("app") + "-" + in + suffix)
		require.Equal(t, "5065536", have["max.message.bytes"], suffix)
	}
	require.Equal(t, "compact", b.configs(b.name("app") + "-" + in + "-retry")["cleanup.policy"])
	require.NoError(t, r.end())
	r = b.run(failingOn(in, out, &never), c)
	r.ready() // what was made is what is needed
	require.NoError(t, r.end())
}
