package streams_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// closing is a processor that does something in Close.
type closing struct{ close func() }

func (*closing) Process(*textContext, textRecord) error { return nil }
func (p *closing) Close() error                         { p.close(); return nil }

// chainOf is a topology with a processor for each function: what its Close does.
func chainOf(closes ...func()) *streams.Builder {
	b := streams.NewBuilder()
	s := b.Stream("in", serde.String, serde.String)
	for _, f := range closes {
		s = s.Process("p"+string(rune('0'+len(closes))), func(*streams.Init) textProcessor { return &closing{f} })
		closes = closes[1:]
	}
	return b
}

func ownerOf(t *testing.T, b *streams.Builder) (*task.Owner, error) {
	t.Helper()
	topology, err := b.Build("test")
	require.NoError(t, err)
	return newOwner(topology, 0)
}

func TestAProcessorThatPanicsInCloseDoesNotKeepTheOthersOpen(t *testing.T) {
	var closed []string
	o, err := ownerOf(t, chainOf(
		func() { closed = append(closed, "first") },
		func() { panic("in close") },
		func() { closed = append(closed, "last") },
	))
	require.NoError(t, err)
	actions := o.Step(time.Unix(0, 0), task.Close{})
	require.Equal(t, []string{"last", "first"}, closed)
	require.IsType(t, task.Failed{}, actions[0])
	require.ErrorContains(t, actions[0].(task.Failed).Err, "in close")
}

func TestASupplierThatPanicsLeavesNoProcessorOpen(t *testing.T) {
	closed := 0
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).
		Process("a", func(*streams.Init) textProcessor { return &closing{func() { closed++ }} }).
		Process("b", func(*streams.Init) textProcessor { panic("no processor") })
	_, err := ownerOf(t, b)
	require.ErrorContains(t, err, "no processor")
	require.Equal(t, 1, closed)
}

// The rows of a task that is over are somebody else's.
func TestAStoreInCloseIsEmptyAndTakesNothing(t *testing.T) {
	store := streams.NewStore("s", serde.String, serde.String, streams.Ordered())
	looked := false
	o, err := ownerOf(t, processing(func(init *streams.Init) textProcessor {
		h := store.Open(init)
		return &closing{func() {
			h.Put("k", "v")
			h.Delete("k")
			_, found := h.Get("k")
			require.False(t, found)
			for range h.All() {
				t.Error("a row")
			}
			looked = true
		}}
	}, streams.WithStores(store)))
	require.NoError(t, err)
	require.Equal(t, []task.Action{task.Closed{}}, o.Step(time.Unix(0, 0), task.Close{}))
	require.True(t, looked)
	require.Zero(t, o.Env().Store(0).DirtyLen())
}
