package streamstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// countOrders counts the orders of all countries by customer.
func countOrders() *streams.Builder {
	b := streams.NewBuilder()
	b.StreamPattern("orders", streams.Matching(`orders\..*`).Except(`orders\.test`), serde.String, serde.String).
		GroupByKey().Count("by-customer").ToStream().To("counts")
	return b
}

func order(d *streamstest.Driver, topic, customer string) error {
	return streamstest.In(d, topic, serde.String, serde.String).TryPipe(customer, "order")
}

func TestTopicsOfAPatternThatAppear(t *testing.T) {
	for _, hold := range []bool{false, true} {
		opts := []streamstest.Option{
			streamstest.Partitions("orders.de", 2), streamstest.Partitions("orders.fr", 2), streamstest.Partitions("orders.it", 0),
			streamstest.Partitions("orders.test", 5), // which is none of them
		}
		if hold {
			opts = append(opts, streamstest.HoldCommits())
		}
		d := streamstest.New(t, countOrders(), opts...)
		rows := streamstest.Store(d, "by-customer", serde.String, serde.Int64)
		counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
		require.Equal(t, []string{"orders.de", "orders.fr"}, d.Topology().Sources)
		for range 3 {
			require.NoError(t, order(d, "orders.de", "ann"))
			require.NoError(t, order(d, "orders.fr", "bob"))
		}
		before := d.Committed("orders.de", 0) + d.Committed("orders.de", 1)
		require.Equal(t, hold, before == 0)
		d.Commit()
		require.NoError(t, order(d, "orders.fr", "ann"))
		require.Equal(t, []streams.KeyValue[string, int64]{{Key: "ann", Value: 4}, {Key: "bob", Value: 3}}, rows.All())

		var last int64
		for _, r := range counts.ReadKeyValues() {
			if r.Key == "ann" {
				require.Greater(t, r.Value, last, "nothing is emitted twice")
				last = r.Value
			}
		}
		d.Commit()
		d.Restart(false)
		require.Equal(t, []streams.KeyValue[string, int64]{{Key: "ann", Value: 4}, {Key: "bob", Value: 3}}, rows.All(), "also from the changelog")
	}
}

func TestATopicOfAPatternIsTakenInWhenItIsWrittenTo(t *testing.T) {
	for _, hold := range []bool{false, true} {
		opts := []streamstest.Option{streamstest.ApplicationID("shop")}
		if hold {
			opts = append(opts, streamstest.HoldCommits())
		}
		d := streamstest.New(t, countOrders(), opts...)
		rows := streamstest.Store(d, "by-customer", serde.String, serde.Int64)
		counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
		require.Empty(t, d.Topology().Sources)
		require.Empty(t, rows.All(), "nothing matches yet")
		for _, topic := range []string{"orders.de", "orders.fr", "orders.de", "orders.at", "orders.de"} {
			require.NoError(t, order(d, topic, "ann"))
		}
		require.Equal(t, []string{"orders.at", "orders.de", "orders.fr"}, d.Topology().Sources)
		if hold {
			require.EqualValues(t, 2, d.Committed("orders.de", 0), "what was done before the last topic came is committed")
		}
		d.Commit()
		require.Equal(t, []streams.KeyValue[string, int64]{{Key: "ann", Value: 5}}, rows.All())
		var last int64
		for _, r := range counts.ReadKeyValues() {
			require.Greater(t, r.Value, last, "nothing is counted or emitted twice")
			last = r.Value
		}
		require.EqualValues(t, 5, last)
		require.NotEmpty(t, streamstest.OutRaw(d, "shop-by-customer-changelog").ReadAll())
		d.Restart(false)
		require.Equal(t, []streams.KeyValue[string, int64]{{Key: "ann", Value: 5}}, rows.All(), "also from the changelog")
	}
}

func TestATopicThatNoPatternMatches(t *testing.T) {
	for _, topic := range []string{"bills.de", "orders.test", "orders.de-changelog"} {
		require.Contains(t, panicOf(t, func() { _ = order(streamstest.New(&recorder{}, countOrders()), topic, "ann") }),
			`topic "`+topic+`" is none of the topology's, and none of its patterns matches it`)
	}
	require.Contains(t, panicOf(t, func() {
		_ = order(streamstest.New(&recorder{}, countOrders(), streamstest.Partitions("orders.de", 0)), "orders.de", "ann")
	}), `topic "orders.de" does not exist`)
}

func TestTopicsOfAPatternThatDoNotFit(t *testing.T) {
	t.Run("more partitions than there is state for", func(t *testing.T) {
		fine := func(streams.Record[string, string]) error { return nil }
		d := streamstest.New(t, shipOrders(retry.KeyOrdered(), fine), streamstest.ApplicationID("shop"))
		require.NoError(t, d.CreateTopic("orders.de", 2))
		require.NoError(t, d.CreateTopic("orders.fr", 1))
		require.NoError(t, order(d, "orders.fr", "ann"))
		err := d.CreateTopic("orders.at", 3)
		var changed *streams.PartitionsChangedError
		require.ErrorAs(t, err, &changed)
		require.Equal(t, streams.PartitionsChangedError{
			Topic: "orders.at", Partitions: 3, Internal: "shop-orders-retry", Kind: streams.RetryTopic, Tasks: 2, Pattern: true,
		}, *changed)
		require.ErrorContains(t, err, `topic "orders.at" has 3 partitions`)
		require.ErrorContains(t, err, "leave it out with Except")
		require.Equal(t, err, d.Err(), "an application would end with it")
	})
	t.Run("fewer partitions than there is state for", func(t *testing.T) {
		d := streamstest.New(t, countOrders(), streamstest.Partitions("orders.de", 2), streamstest.Partitions("orders.fr", 2))
		d.DeleteTopic("orders.de")
		require.NoError(t, d.CreateTopic("orders.de", 2))
		require.ErrorContains(t, d.CreateTopic("orders.at", 1), "orders.at has 1, orders.de has 2, orders.fr has 2")
	})
	t.Run("two patterns", func(t *testing.T) {
		b := streams.NewBuilder()
		b.StreamPattern("all", streams.Matching(`.*`), serde.String, serde.String).To("a")
		b.StreamPattern("some", streams.Matching(`x.*`), serde.String, serde.String).To("b")
		d := streamstest.New(t, b)
		require.NoError(t, order(d, "y", "ann"))
		err := order(d, "x1", "ann")
		require.ErrorContains(t, err, `topic "x1" matches the patterns of both "all" and "some"`)
		require.Equal(t, err, d.Err(), "an application would end with it")
	})
}

// Sources that are processed together may read the same topic, as two that name it may: each passes its records on.
func TestTwoPatternsOfOneTaskThatMatchATopic(t *testing.T) {
	b := streams.NewBuilder()
	some := b.StreamPattern("some", streams.Matching(`x.*`), serde.String, serde.String).MapValues(func(string) string { return "some" })
	b.StreamPattern("all", streams.Matching(`.*`), serde.String, serde.String).MapValues(func(string) string { return "all" }).Merge(some).To("out")
	d := streamstest.New(t, b)
	out := streamstest.Out(d, "out", serde.String, serde.String)
	require.NoError(t, order(d, "x1", "ann"))
	require.ElementsMatch(t, []streams.KeyValue[string, string]{{Key: "ann", Value: "all"}, {Key: "ann", Value: "some"}}, out.ReadKeyValues())
	require.NoError(t, order(d, "y", "ann"))
	require.Equal(t, []streams.KeyValue[string, string]{{Key: "ann", Value: "all"}}, out.ReadKeyValues())
}

var errNoStock = errors.New("no stock")

// shipOrders calls the warehouse for each order.
func shipOrders(policy retry.Policy, call func(streams.Record[string, string]) error) *streams.Builder {
	b := streams.NewBuilder()
	b.StreamPattern("orders", streams.Matching(`orders\..*`), serde.String, serde.String, streams.OnFailure(policy)).
		TryPeek("ship", func(_ context.Context, r streams.Record[string, string]) error { return call(r) }).To("shipped")
	return b
}

func TestRecordsOfADeletedTopicThatWaitToBeTriedAgain(t *testing.T) {
	var out bool
	b := shipOrders(retry.KeyOrdered(retry.Backoff(time.Minute, time.Minute)), func(streams.Record[string, string]) error {
		if out {
			return errNoStock
		}
		return nil
	})
	d := streamstest.New(t, b)
	shipped := streamstest.Out(d, "shipped", serde.String, serde.String)
	require.NoError(t, order(d, "orders.fr", "ann"))
	out = true
	require.NoError(t, order(d, "orders.de", "bob"))
	require.NoError(t, order(d, "orders.de", "bob"))
	require.Len(t, shipped.ReadAll(), 1)
	d.DeleteTopic("orders.de")
	require.Equal(t, []string{"orders.fr"}, d.Topology().Sources)
	out = false
	require.NoError(t, order(d, "orders.fr", "eve"))
	d.AdvanceWallClock(2 * time.Minute)
	require.Equal(t, []streams.KeyValue[string, string]{{Key: "eve", Value: "order"}, {Key: "bob", Value: "order"}, {Key: "bob", Value: "order"}},
		shipped.ReadKeyValues(), "they are run at the entry of a topic that is left")
	require.NoError(t, order(d, "orders.de", "joe"), "a new topic of the name is read from its beginning")
	require.Equal(t, []streams.KeyValue[string, string]{{Key: "joe", Value: "order"}}, shipped.ReadKeyValues())
	require.EqualValues(t, 1, d.Committed("orders.de", 0))
}

// What waits in a partition that only the deleted topic had is tried again, too: also by the next who has the task.
func TestRecordsOfADeletedTopicThatWasWider(t *testing.T) {
	fails := true
	b := shipOrders(retry.KeyOrdered(retry.Backoff(time.Minute, time.Minute)), func(r streams.Record[string, string]) error {
		if fails {
			return errNoStock
		}
		return nil
	})
	d := streamstest.New(t, b, streamstest.Partitions("orders.de", 4), streamstest.Partitions("orders.fr", 1))
	shipped := streamstest.Out(d, "shipped", serde.String, serde.String)
	customers := []string{"ann", "bob", "eve", "joe", "kim", "leo", "mia", "ned"}
	for _, customer := range customers {
		require.NoError(t, order(d, "orders.de", customer))
	}
	fails = false
	d.DeleteTopic("orders.de")
	d.Restart(false)
	d.AdvanceWallClock(2 * time.Minute)
	var done []string
	for _, r := range shipped.ReadKeyValues() {
		done = append(done, r.Key)
	}
	require.ElementsMatch(t, customers, done)
}

// A topic is made anew under its name while records of it are parked: those at their offsets are others, and both are run.
func TestRegressionATopicIsMadeAnewWhileRecordsOfItAreParked(t *testing.T) {
	var out bool
	b := shipOrders(retry.KeyOrdered(retry.Backoff(time.Minute, time.Minute)), func(streams.Record[string, string]) error {
		if out {
			return errNoStock
		}
		return nil
	})
	d := streamstest.New(t, b)
	shipped := streamstest.Out(d, "shipped", serde.String, serde.String)
	out = true
	require.NoError(t, order(d, "orders.fr", "ann"))
	require.NoError(t, order(d, "orders.de", "bob"))
	require.NoError(t, order(d, "orders.de", "eve"))
	d.DeleteTopic("orders.de")
	require.NoError(t, order(d, "orders.de", "joe"))
	require.EqualValues(t, 1, d.Committed("orders.de", 0))
	require.NoError(t, order(d, "orders.de", "eve"))
	d.Restart(false)
	out = false
	d.AdvanceWallClock(2 * time.Minute)
	var who []string
	for _, kv := range shipped.ReadKeyValues() {
		who = append(who, kv.Key)
	}
	require.ElementsMatch(t, []string{"ann", "bob", "eve", "joe", "eve"}, who)
}

func TestRecordsOfTheLastTopicOfAPatternWaitForAnother(t *testing.T) {
	fails := false
	b := streams.NewBuilder()
	some := b.StreamPattern("orders", streams.Matching(`orders\..*`), serde.String, serde.String, streams.OnFailure(retry.KeyOrdered(retry.Backoff(time.Minute, time.Minute))))
	b.Stream("more", serde.String, serde.String, streams.OnFailure(retry.KeyOrdered(retry.Backoff(time.Minute, time.Minute)))).
		Merge(some).
		TryPeek("ship", func(context.Context, streams.Record[string, string]) error {
			if fails {
				return errNoStock
			}
			return nil
		}).To("shipped")
	d := streamstest.New(t, b)
	shipped := streamstest.Out(d, "shipped", serde.String, serde.String)
	fails = true
	require.NoError(t, order(d, "orders.de", "bob"))
	fails = false
	d.DeleteTopic("orders.de")
	d.AdvanceWallClock(time.Hour)
	require.NoError(t, order(d, "more", "ann"))
	d.Restart(false)
	require.Equal(t, []streams.KeyValue[string, string]{{Key: "ann", Value: "order"}}, shipped.ReadKeyValues())
	require.NoError(t, d.CreateTopic("orders.fr", 1))
	require.Equal(t, []streams.KeyValue[string, string]{{Key: "bob", Value: "order"}}, shipped.ReadKeyValues())
}

func TestDeadLettersOfADeletedTopic(t *testing.T) {
	var bad bool
	b := shipOrders(retry.KeyOrdered(retry.Attempts(1), retry.Inline(1), retry.ThenDeadLetter()), func(r streams.Record[string, string]) error {
		if bad {
			return errNoStock
		}
		return nil
	})
	d := streamstest.New(t, b, streamstest.ApplicationID("shop"))
	shipped := streamstest.Out(d, "shipped", serde.String, serde.String)
	require.NoError(t, order(d, "orders.fr", "ann"))
	bad = true
	require.NoError(t, order(d, "orders.de", "bob"))
	d.AdvanceWallClock(time.Hour)
	bad = false
	require.Len(t, shipped.ReadAll(), 1)
	require.Len(t, d.DeadLetters("orders.de"), 1)
	d.DeleteTopic("orders.de")
	letters := d.DeadLetters("orders.de")
	require.Len(t, letters, 1, "they are in a topic that is named after the source")
	require.NoError(t, d.Redrive(letters[0]))
	require.Equal(t, []streams.KeyValue[string, string]{{Key: "bob", Value: "order"}}, shipped.ReadKeyValues())
}

func TestAClusterReadsTopicsByAPattern(t *testing.T) {
	c := streamstest.NewCluster(t, countOrders(), streamstest.Members(3),
		streamstest.Partitions("orders.de", 4), streamstest.Partitions("orders.fr", 4), streamstest.Partitions("orders.test", 1))
	require.Equal(t, []string{"orders.de", "orders.fr"}, c.Topology().Sources)
	de, fr := streamstest.In(c, "orders.de", serde.String, serde.String), streamstest.In(c, "orders.fr", serde.String, serde.String)
	for range 5 {
		de.Pipe("ann", "order")
		fr.Pipe("ann", "order")
		fr.Pipe("bob", "order")
	}
	c.Settle(time.Minute)
	c.Member(1).Kill()
	de.Pipe("bob", "order")
	c.Run(time.Minute)
	c.Settle(time.Minute)
	require.Equal(t, []streams.KeyValue[string, int64]{{Key: "ann", Value: 10}, {Key: "bob", Value: 6}},
		streamstest.Store(c, "by-customer", serde.String, serde.Int64).All())
}
