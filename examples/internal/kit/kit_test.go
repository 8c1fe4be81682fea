package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestFlagsHaveDefaultsForTheEmbeddedBroker(t *testing.T) {
	f := &Flags{}
	set := flag.NewFlagSet("x", flag.ContinueOnError)
	f.define(set, "demo")
	require.NoError(t, set.Parse(nil))
	require.Equal(t, &Flags{App: "demo"}, f)
	require.True(t, f.Embedded())
	require.False(t, f.Logger().Core().Enabled(zap.ErrorLevel), "nothing is logged unless asked for")
}

func TestFlagsNameBrokersAndState(t *testing.T) {
	f := &Flags{}
	set := flag.NewFlagSet("x", flag.ContinueOnError)
	f.define(set, "demo")
	require.NoError(t, set.Parse([]string{"-brokers", "a:1, b:2", "-app", "mine", "-state", "/s", "-v"}))
	require.Equal(t, []string{"a:1", "b:2"}, f.brokers())
	require.Equal(t, "mine", f.App)
	require.Equal(t, "/s", f.State)
	require.False(t, f.Embedded())
	require.True(t, f.Logger().Core().Enabled(zap.InfoLevel))
}

func TestRunTellsFailureFromInterruption(t *testing.T) {
	broken := errors.New("broken")
	cases := []struct {
		name        string
		err         error
		interrupted bool
		code        int
		said        string
	}{
		{name: "done", code: 0},
		{name: "failed", err: broken, code: 1, said: "broken\n"},
		{name: "interrupted", err: fmt.Errorf("load: %w", context.Canceled), interrupted: true, code: 0, said: "\ninterrupted\n"},
		{name: "canceled by itself", err: context.Canceled, code: 1, said: "context canceled\n"},
		{name: "interrupted and failed", err: errors.Join(context.Canceled, broken), interrupted: true, code: 1, said: "context canceled\nbroken\n"},
		{name: "interrupted twice over", err: errors.Join(context.Canceled, fmt.Errorf("x: %w", context.Canceled)), interrupted: true, code: 0, said: "\ninterrupted\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if c.interrupted {
				cancel()
			}
			var said strings.Builder
			require.Equal(t, c.code, run(ctx, &said, func(context.Context) error { return c.err }))
			require.Equal(t, c.said, said.String())
		})
	}
}
