package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMarksWrap(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		text string
	}{
		{"permanent", Permanent(&typed{3}), "code 3"},
		{"after", After(&typed{3}, time.Second), "code 3"},
		{"wrapped", fmt.Errorf("step two: %w", Permanent(&typed{3})), "step two: code 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.EqualError(t, c.err, c.text)
			var inner *typed
			require.ErrorAs(t, c.err, &inner)
			require.Equal(t, 3, inner.code)
		})
	}
	require.ErrorIs(t, After(Permanent(errBad), 1), errBad)
	require.EqualError(t, Skip("a heartbeat"), "skip: a heartbeat")
	require.EqualError(t, Snooze(time.Minute), "snooze for 1m0s")
	require.NoError(t, Permanent(nil))
	require.NoError(t, After(nil, time.Second))
}

// broke cannot be unwrapped.
type broke struct{ err *typed }

func (b broke) Error() string { return "broke" }
func (b broke) Unwrap() error { panic(b.err.code) }

func TestClass(t *testing.T) {
	for _, c := range []struct {
		name string
		kind string
		err  error
		want string
	}{
		{"the innermost", "process", fmt.Errorf("a: %w", fmt.Errorf("b: %w", &typed{1})), "*retry.typed"},
		{"of joined ones the first", "process", errors.Join(nil, fmt.Errorf("a: %w", context.DeadlineExceeded), &typed{1}), "context.deadlineExceededError"},
		{"with two verbs", "process", fmt.Errorf("%w and %w", &typed{1}, errBad), "*retry.typed"},
		{"a mark is none", "process", Permanent(After(&typed{1}, 1)), "*retry.typed"},
		{"panic", "panic", &typed{1}, "panic"},
		{"skip", "process", fmt.Errorf("a: %w", Skip("b")), "skip"},
		{"snooze", "process", Snooze(1), "snooze"},
		{"no error", "store", nil, "store"},
		{"one that cannot be unwrapped", "process", fmt.Errorf("a: %w", broke{}), "retry.broke"},
		{"an empty join", "process", emptyJoin{}, "retry.emptyJoin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Class(c.kind, c.err))
		})
	}
}

// emptyJoin joins nothing.
type emptyJoin struct{}

func (emptyJoin) Error() string   { return "nothing" }
func (emptyJoin) Unwrap() []error { return []error{nil} }
