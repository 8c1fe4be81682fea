package streams_test

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
)

// A broker that begins to refuse what it has taken before, as the limit of a topic was lowered, ends no application whose policy for produce says
// what becomes of such a record. All others are written, and what failed once is known from then on.
func TestAppRecordsThatABrokerRefusesFollowThePolicy(t *testing.T) {
	t.Parallel()
	x, y := large("x"), large("y")
	for name, p := range map[string]retry.Policy{
		"ordered":  retry.Ordered(retry.OnProduce(retry.Ordered(retry.Attempts(1), retry.ThenDeadLetter()))),
		"parallel": retry.Parallel(retry.Workers(2), retry.OnProduce(retry.Ordered(retry.Attempts(1), retry.ThenDeadLetter()))),
	} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, b *bed) {
				in, out := b.topic("in", 1), b.topic("out", 1)
				c := b.config("refused-" + name)
				var again atomic.Int64
				c.Listener.Retry = func(what string, _ error) {
					if strings.Contains(what, "does not take") {
						again.Add(1)
					}
				}
				r := b.run(through(newFlaky(nil), p, in, out), c)
				b.keyed(in, 0, "a1")
				r.until("the first", func() bool { return len(b.texts(out)) == 1 })
				b.limit(out, 2000)
				b.keyed(in, 0, "b1", x, "b2", "b3")
				dlq := b.name("refused-" + name + "-" + in + "-dlq")
				r.until("the dead letter", func() bool { return len(b.letters(dlq)) == 1 })
				b.keyed(in, 0, y, "b4")
				r.until("everything", func() bool { return b.offset("refused-"+name, in, 0) == 7 })
				seen := map[string]bool{}
				for _, v := range b.texts(out) {
					seen[v] = true
				}
				require.Equal(t, map[string]bool{"a1": true, "b1": true, "b2": true, "b3": true, "b4": true}, seen)
				letters := b.letters(dlq)
				require.Len(t, letters, 2)
				require.Equal(t, 1, letters[x].copies)
				require.Equal(t, in, letters[x].says.Topic)
				require.Equal(t, int64(2), letters[x].says.Offset)
				require.Positive(t, again.Load())
				require.LessOrEqual(t, again.Load(), int64(2), "the lowered limit is known from then on, or from the second time where brokers learn of it one by one")
				require.NoError(t, r.end())
			})
		})
	}
}

// large is a value that no compression makes small.
func large(name string) string {
	rng := rand.New(rand.NewPCG(1, uint64(name[0])))
	b := []byte(name)
	for range 5000 {
		b = append(b, byte('!'+rng.IntN(90)))
	}
	return string(b)
}

// Without a policy for produce it ends the application, and the error says what to do.
func TestAppRecordsThatABrokerRefusesEndTheApplication(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		r := b.run(through(newFlaky(nil), retry.Ordered(retry.ThenDeadLetter()), in, out), b.config("refused"))
		b.keyed(in, 0, "a1")
		r.until("the first", func() bool { return len(b.texts(out)) == 1 })
		b.limit(out, 2000)
		b.keyed(in, 0, large("x"))
		err := r.fails()
		var refused *streams.ProduceError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, out)
		require.ErrorContains(t, err, "max.message.bytes")
		require.ErrorContains(t, err, "retry.OnProduce")
	})
}
