package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestTheConsumerBillsWhatMatches(t *testing.T) {
	b := streamstest.Broker(t, map[string]int32{"orders.eu": 1, "orders.us": 1, "carts": 1})
	for topic, key := range map[string]string{"orders.eu": "1", "orders.us": "2", "carts": "3"} {
		b.Put(topic, []byte(key), []byte("x"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	billed := map[string]int{}
	err := consume(ctx, func(r streams.ConsumerRecord) error {
		if billed[string(r.Key)]++; len(billed) == 2 {
			cancel()
		}
		return nil
	}, b.Addrs()...)
	require.ErrorIs(t, err, context.Canceled, "the commit did not wait any more")
	require.Equal(t, map[string]int{"1": 1, "2": 1}, billed)
}

func TestABillThatFailsIsNotCommitted(t *testing.T) {
	b := streamstest.Broker(t, map[string]int32{"orders.eu": 1})
	b.Put("orders.eu", []byte("1"), []byte("x"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		require.ErrorContains(t, consume(ctx, func(r streams.ConsumerRecord) error { return fmt.Errorf("no bill for %s", r.Key) }, b.Addrs()...), "no bill for 1")
	}
}

func TestLightsCanBeRecoveredInParallel(t *testing.T) {
	d := streamstest.New(t, lights())
	in := streamstest.In(d, "signals", serde.String, serde.String)
	in.Pipe("north", "red")
	in.Pipe("north", "green")
	d.Commit()
	kvs := streamstest.Out(d, "counts", serde.String, serde.Int64).ReadKeyValues()
	require.NotEmpty(t, kvs)
	require.EqualValues(t, 2, kvs[len(kvs)-1].Value)
}
