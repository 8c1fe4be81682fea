package retry

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaults(t *testing.T) {
	want := Settings{
		Inline: 1, Attempts: 10, First: 100 * time.Millisecond, Most: time.Minute, Factor: 2, Jitter: 0.2, MaxAge: 24 * time.Hour,
		Workers: 1, Crashes: 2, Depth: 10_000, Parked: 1_000_000, ParkedBytes: 1 << 30, Row: 20, Probe: 5 * time.Second,
	}
	for mode, p := range map[Mode]Policy{ModeOrdered: Ordered(), ModeKeyOrdered: KeyOrdered(), ModeParallel: Parallel()} {
		want.Mode = mode
		require.Equal(t, want, p.Settings(), mode)
		require.True(t, p.Named())
		require.NoError(t, p.Validate())
	}
	want.Mode, want.Attempts = ModeStop, 1
	require.Equal(t, want, Stop().Settings())
	require.Equal(t, want, Policy{}.Settings())
	require.True(t, Stop().Named())
	require.False(t, Policy{}.Named())
	require.NoError(t, Policy{}.Validate())
}

func TestOptions(t *testing.T) {
	p := KeyOrdered(
		Inline(3), Attempts(7), Backoff(time.Second, time.Hour), Factor(3), Jitter(0.5), MaxAge(48*time.Hour), Timeout(time.Minute),
		Workers(16), Crashes(4), Depth(9), Parked(8, 7), Flood(6), Breaker(5, 2*time.Second), ThenDeadLetterTo("orders.dead-letters_1"),
		WithFollowers(FollowersToo), Rows(EndSkip),
	)
	require.NoError(t, p.Validate())
	require.Equal(t, Settings{
		Mode: ModeKeyOrdered, Inline: 3, Attempts: 7, First: time.Second, Most: time.Hour, Factor: 3, Jitter: 0.5, MaxAge: 48 * time.Hour,
		Timeout: time.Minute, Workers: 16, Crashes: 4, Then: EndDeadLetter, Topic: "orders.dead-letters_1", Followers: FollowersToo,
		Rows: EndSkip, Depth: 9, Parked: 8, ParkedBytes: 7, Flood: 6, Row: 5, Probe: 2 * time.Second,
	}, p.Settings())
	require.Zero(t, Ordered(NoBreaker()).Settings().Row)
	require.True(t, Ordered(DrainFirst()).Settings().DrainFirst)
	require.NoError(t, Stop(DrainFirst()).Validate())
	require.Equal(t, EndSkip, Ordered(ThenSkip()).Settings().Then)
	require.Equal(t, EndStop, Ordered(ThenStop()).Settings().Then)
	require.Equal(t, 2, Ordered(Inline(9), Inline(2)).Settings().Inline, "the last one counts")
}

// Somebody who says for ever does not expect an end after a day.
func TestForeverHasNoAge(t *testing.T) {
	require.Zero(t, Ordered(Attempts(Forever)).Settings().MaxAge)
	require.Equal(t, time.Hour, Ordered(Attempts(Forever), MaxAge(time.Hour)).Settings().MaxAge)
	require.Equal(t, time.Hour, Ordered(MaxAge(time.Hour), Attempts(Forever)).Settings().MaxAge)
}

func TestValidateFaults(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		want   string // one line for each fault
	}{
		{Ordered(Workers(4)), "Workers(4) with Ordered: records run one after the other; use KeyOrdered or Parallel, or leave it out"},
		{KeyOrdered(DrainFirst()), "DrainFirst with KeyOrdered: what is put aside is run beside the main path anyway; leave it out"},
		{Stop(Workers(4)), "Workers(4) with Stop: records run one after the other; use KeyOrdered or Parallel, or leave it out"},
		{Parallel(Workers(0)), "Workers(0): at least 1, which is the task's own goroutine"},
		{Stop(Inline(0)), "Inline(0): the first try is one of them, at least 1"},
		{Ordered(Attempts(0)), "Attempts(0): at least 1, or retry.Forever"},
		{Ordered(Attempts(-2)), "Attempts(-2): at least 1, or retry.Forever"},
		{Ordered(Backoff(-1, time.Second)), "Backoff(-1ns, 1s): a wait cannot be negative, 0 is no wait"},
		{Ordered(Backoff(time.Minute, time.Second)), "Backoff(1m0s, 1s): the longest wait comes second"},
		{Ordered(Factor(0.5)), "Factor(0.5): at least 1, which keeps all waits the same"},
		{Ordered(Factor(math.NaN())), "Factor(NaN): at least 1, which keeps all waits the same"},
		{Ordered(Factor(math.Inf(1))), "Factor(+Inf): at least 1, which keeps all waits the same"},
		{Ordered(Jitter(1.5)), "Jitter(1.5): a part from 0 to 1"},
		{Ordered(Jitter(math.NaN())), "Jitter(NaN): a part from 0 to 1"},
		{Ordered(MaxAge(-time.Second)), "MaxAge(-1s): 0 is no limit"},
		{Ordered(MaxAge(1)), "MaxAge(1ns): at least 1ms, 0 is no limit"},
		{Parallel(Timeout(-1)), "Timeout(-1ns): 0 is none"},
		{Ordered(Timeout(1)), "Timeout with Ordered: no record is put aside; use KeyOrdered or Parallel, or leave it out"},
		{Ordered(Crashes(0)), "Crashes(0): at least 1"},
		{KeyOrdered(Depth(0)), "Depth(0): at least 1"},
		{Parallel(Depth(5)), "Depth with Parallel: no record waits behind another; use KeyOrdered, or leave it out"},
		{Parallel(WithFollowers(FollowersToo)), "WithFollowers with Parallel: no record waits behind another; use KeyOrdered, or leave it out"},
		{KeyOrdered(WithFollowers(9)), "WithFollowers(9): FollowersGoOn, FollowersToo or FollowersStop"},
		{Parallel(Parked(0, 1)), "Parked(0, 1): at least one record and one byte; use Ordered to put none aside"},
		{Parallel(Flood(-1)), "Flood(-1): 0 is no limit"},
		{Parallel(Breaker(0, time.Second)), "Breaker(0, 1s): at least one failure and 1ms; use NoBreaker for none"},
		{Parallel(Rows(7)), "Rows(7): EndStop, EndDeadLetter or EndSkip"},
		{Stop(Attempts(3)), "Attempts with Stop: there is no second attempt; use Ordered, which stops at the end"},
		{Stop(ThenSkip()), "ThenSkip with Stop: use Ordered(Attempts(1), …), which goes on after the end of a record"},
		{Ordered(ThenSkip(), ThenDeadLetter()), "ThenSkip and ThenDeadLetter: a record has one end; leave one of them"},
		{Ordered(ThenDeadLetterTo("")), `ThenDeadLetterTo(""): a topic has a name; ThenDeadLetter has one of its own`},
		{Ordered(ThenDeadLetterTo("..")), `ThenDeadLetterTo(".."): Kafka keeps that name for itself`},
		{Ordered(ThenDeadLetterTo("a b")), `ThenDeadLetterTo("a b"): Kafka takes letters, digits, '.', '_' and '-', not ' '`},
		{Ordered(PermanentIs()), "PermanentIs without an error, or with nil: name the errors that are permanent"},
		{Ordered(PermanentIs(errBad, nil)), "PermanentIs without an error, or with nil: name the errors that are permanent"},
		{Ordered(PermanentIf(nil)), "PermanentIf without a function"},
		{Ordered(SkipIf("so", nil)), "SkipIf without a function"},
		{Ordered(Option{}), "an empty Option: make options with the functions of the package"},
		{Ordered(OnDecode(Policy{})), "OnDecode with the zero Policy: make one with Stop, Ordered, KeyOrdered or Parallel"},
		{
			Ordered(OnDecode(Ordered(OnProduce(Stop())))),
			"OnDecode: the policy in it has an OnDecode or OnProduce of its own, which nothing would use; leave it out",
		},
		{
			Parallel(OnProduce(Parallel(Workers(3)))),
			"OnProduce: the policy in it has Workers, which is about the whole task; name it beside OnProduce",
		},
		{
			Ordered(OnDecode(Parallel())),
			"OnDecode(Parallel) with Ordered: it may be Stop, Ordered, or the mode of the policy it is part of",
		},
		{Ordered(OnDecode(Ordered(Factor(0)))), "OnDecode: Factor(0): at least 1, which keeps all waits the same"},
		{Stop(Inline(0), Crashes(0)), "Inline(0): the first try is one of them, at least 1\nCrashes(0): at least 1"},
	} {
		t.Run(c.want, func(t *testing.T) {
			want := "retry: " + strings.ReplaceAll(c.want, "\n", "\nretry: ")
			require.EqualError(t, c.policy.Validate(), want)
		})
	}
	require.ErrorContains(t, Ordered(ThenDeadLetterTo(strings.Repeat("a", 250))).Validate(), "250 characters, Kafka takes 249")
}

func TestValidatePasses(t *testing.T) {
	for _, p := range []Policy{
		Stop(Inline(3), SkipIf("so", is(errBad)), OnDecode(Ordered(Attempts(1), ThenSkip()))),
		Ordered(Workers(1)),
		Ordered(Backoff(0, 0), Jitter(1), Factor(1), MaxAge(0), NoBreaker()),
		Ordered(ThenSkip(), ThenSkip()),
		Parallel(Workers(64), Timeout(time.Second), OnDecode(Parallel(ThenDeadLetter())), OnProduce(Ordered())),
		KeyOrdered(Breaker(0, 0), NoBreaker()),
		Ordered(Attempts(Forever), ThenDeadLetterTo("a"+strings.Repeat(".", 248))),
	} {
		require.NoError(t, p.Validate())
	}
}

func TestEqual(t *testing.T) {
	rules := Ordered(PermanentIs(errBad))
	for _, c := range []struct {
		name string
		a, b Policy
		want bool
	}{
		{"the same", Ordered(Attempts(3), Inline(2)), Ordered(Inline(2), Attempts(3)), true},
		{"a default named", Ordered(), Ordered(Attempts(10)), true},
		{"zero", Policy{}, Policy{}, true},
		{"zero and stop", Policy{}, Stop(), false},
		{"modes", Ordered(), Parallel(), false},
		{"a number", Ordered(), Ordered(Attempts(9)), false},
		{"a copy with rules", rules, rules, true},
		{"rules made twice", rules, Ordered(PermanentIs(errBad)), false},
		{"rules and none", rules, Ordered(), false},
		{"parts", Ordered(OnDecode(Stop())), Ordered(OnDecode(Stop())), true},
		{"other parts", Ordered(OnDecode(Stop())), Ordered(OnDecode(Ordered())), false},
		{"a part and none", Ordered(OnProduce(Stop())), Ordered(), false},
		{"parts with rules", Ordered(OnDecode(rules)), Ordered(OnDecode(rules)), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.a.Equal(c.b))
			require.Equal(t, c.want, c.b.Equal(c.a))
		})
	}
}

// A policy is a value: what is made of it later, or of the arguments, does not change it.
func TestPolicyIsAValue(t *testing.T) {
	errs := []error{errBad}
	part := Ordered(Attempts(2))
	p := Parallel(PermanentIs(errs...), OnDecode(part))
	errs[0] = errDown
	require.True(t, p.Decide(failed(errBad)).Permanent)
	require.False(t, p.Decide(failed(errDown)).Permanent)
	require.True(t, part.Decide(Failed{Err: errBad, Kind: "decode", Attempt: 1}).Permanent, "by itself it is a policy like any other")
	require.False(t, p.Decide(Failed{Err: errBad, Kind: "decode", Attempt: 1}).Permanent)
}

func TestNames(t *testing.T) {
	require.Equal(t, "Stop Ordered KeyOrdered Parallel unknown", join(ModeStop, ModeOrdered, ModeKeyOrdered, ModeParallel, Mode(9)))
	require.Equal(t, "stop dead letter skip", join(EndStop, EndDeadLetter, EndSkip))
	require.Equal(t, "go on too stop", join(FollowersGoOn, FollowersToo, FollowersStop))
	require.Equal(t, "again ended skipped", join(Again, Ended, Skipped))
	require.Equal(t, "closed open probing", join(CircuitClosed, CircuitOpen, CircuitProbing))
}

func join[T interface{ String() string }](names ...T) string {
	var words []string
	for _, n := range names {
		words = append(words, n.String())
	}
	return strings.Join(words, " ")
}
