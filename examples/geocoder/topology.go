package main

import (
	"context"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// policy says what becomes of a lookup that fails. Its parts are in the order of events.
func (o *order) policy() (retry.Policy, error) {
	options := []retry.Option{
		retry.Backoff(100*time.Millisecond, 2*time.Second),
		retry.Breaker(20, 2*time.Second),
		retry.PermanentIs(errUnknown),
		retry.Attempts(20),
		retry.ThenDeadLetter(),
	}
	beside := append([]retry.Option{retry.Workers(o.workers), retry.Timeout(2 * time.Second)}, options...)
	switch o.mode {
	case "stop":
		return retry.Stop(), nil
	case "ordered":
		return retry.Ordered(options...), nil
	case "key-ordered":
		return retry.KeyOrdered(beside...), nil
	case "parallel":
		return retry.Parallel(beside...), nil
	}
	return retry.Policy{}, fmt.Errorf("-mode %s: there are stop, ordered, key-ordered and parallel", o.mode)
}

// topology looks up each address of the topic.
func topology(o *order, out string) (*streams.Builder, error) {
	p, err := o.policy()
	if err != nil {
		return nil, err
	}
	b := streams.NewBuilder()
	b.Stream("addresses", serde.String, serde.String, streams.OnFailure(p)).
		TryMapValues("geocode", func(ctx context.Context, r streams.Record[string, string]) (string, error) {
			at, err := o.service.locate(ctx, r.Value)
			return r.Value + ": " + at, err
		}).
		To(out)
	return b, nil
}
