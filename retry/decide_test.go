package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	errBad  = errors.New("bad")
	errDown = errors.New("down")
)

// typed is an error of the user's with a type of its own.
type typed struct{ code int }

func (t *typed) Error() string { return fmt.Sprint("code ", t.code) }

const noon = 43_200_000 // a time, ms

func failed(err error) Failed {
	return Failed{Err: err, Kind: "process", Attempt: 1, First: noon, Now: noon}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func TestDecide(t *testing.T) {
	steady := []Option{Jitter(0), Backoff(time.Second, time.Minute), Attempts(3), ThenDeadLetter()}
	patient := append(steady[:len(steady):len(steady)], Attempts(Forever))
	for _, c := range []struct {
		name   string
		policy Policy
		failed Failed
		want   Decision
	}{
		{
			"the first failure waits", Ordered(steady...), failed(errBad),
			Decision{At: noon + 1000, Attempt: 1, Class: "*errors.errorString", Counts: true},
		},
		{
			"the second waits longer", Parallel(steady...), Failed{Err: errBad, Attempt: 2, First: noon, Now: noon},
			Decision{At: noon + 2000, Attempt: 2, Class: "*errors.errorString", Counts: true},
		},
		{
			"the last ends it", KeyOrdered(steady...), Failed{Err: errBad, Attempt: 3, First: noon, Now: noon},
			Decision{
				Verdict: Ended, Attempt: 3, Class: "*errors.errorString", Reason: "attempts used up (3)", End: EndDeadLetter, Counts: true,
			},
		},
		{
			"a panic follows the policy", Ordered(steady...), Failed{Err: &typed{1}, Kind: "panic", Attempt: 1, First: noon, Now: noon},
			Decision{At: noon + 1000, Attempt: 1, Class: "panic", Counts: true},
		},
		{
			"stop", Stop(), failed(errBad),
			Decision{Verdict: Ended, Attempt: 1, Class: "*errors.errorString", Reason: "the policy is Stop", Counts: true},
		},
		{
			"the zero policy stops", Policy{}, failed(errBad),
			Decision{Verdict: Ended, Attempt: 1, Class: "*errors.errorString", Reason: "the policy is Stop", Counts: true},
		},
		{
			"stop knows no later", Stop(), failed(Snooze(time.Second)),
			Decision{Verdict: Ended, Attempt: 1, Class: "snooze", Reason: "the policy is Stop"},
		},
		{
			"stop lets a record be skipped", Stop(), failed(Skip("a test record")),
			Decision{Verdict: Skipped, Attempt: 1, Class: "skip", Reason: "a test record", End: EndSkip},
		},
		{
			"permanent", Ordered(steady...), failed(fmt.Errorf("step: %w", Permanent(&typed{7}))),
			Decision{Verdict: Ended, Attempt: 1, Class: "*retry.typed", Reason: "permanent", End: EndDeadLetter, Permanent: true},
		},
		{
			"a snooze gives its attempt back", Ordered(steady...), Failed{Err: Snooze(time.Hour), Attempt: 9, First: noon, Now: noon},
			Decision{At: noon + 3_600_000, Attempt: 8, Class: "snooze"},
		},
		{
			"a snooze without a time", Ordered(steady...), failed(Snooze(-1)),
			Decision{At: noon + 1000, Attempt: 0, Class: "snooze"},
		},
		{
			"a snooze moves on even where nothing waits", Ordered(Backoff(0, 0)), failed(Snooze(0)),
			Decision{At: noon + 1, Attempt: 0, Class: "snooze"},
		},
		{
			"after wins over the back-off", Ordered(steady...), failed(After(errBad, 90*time.Second)),
			Decision{At: noon + 90_000, Attempt: 1, Class: "*errors.errorString", Counts: true},
		},
		{
			"after at once", Ordered(steady...), failed(After(errBad, -time.Second)),
			Decision{At: noon, Attempt: 1, Class: "*errors.errorString", Counts: true},
		},
		{
			"after counts as an attempt", Ordered(steady...), Failed{Err: After(errBad, 1), Attempt: 3, First: noon, Now: noon},
			Decision{
				Verdict: Ended, Attempt: 3, Class: "*errors.errorString", Reason: "attempts used up (3)", End: EndDeadLetter, Counts: true,
			},
		},
		{
			"no wait is shorter than asked", Ordered(steady...), failed(After(errBad, 1500*time.Microsecond)),
			Decision{At: noon + 2, Attempt: 1, Class: "*errors.errorString", Counts: true},
		},
		{
			"too old", Ordered(append(patient, MaxAge(time.Hour))...), Failed{Err: errBad, Attempt: 5, First: noon - 3_600_000, Now: noon},
			Decision{
				Verdict: Ended, Attempt: 5, Class: "expired", Reason: "older than MaxAge (1h0m0s)", End: EndDeadLetter, Counts: true,
			},
		},
		{
			"an endless snooze ends", Ordered(steady...), Failed{Err: Snooze(time.Minute), Attempt: 1, First: 0, Now: 24 * 3_600_000},
			Decision{Verdict: Ended, Attempt: 1, Class: "expired", Reason: "older than MaxAge (24h0m0s)", End: EndDeadLetter},
		},
		{
			"the last try comes when the age ends", Parallel(append(steady, MaxAge(time.Minute))...), failed(Snooze(1000 * time.Hour)),
			Decision{At: noon + 60_000, Attempt: 0, Class: "snooze"},
		},
		{
			"for ever is for ever", Ordered(patient...), Failed{Err: errBad, Attempt: 5_000_000, First: 0, Now: 1 << 50},
			Decision{At: 1<<50 + 60_000, Attempt: 5_000_000, Class: "*errors.errorString", Counts: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.policy.Decide(c.failed))
		})
	}
}

// What an error says of itself comes before the rules, of which the first that holds counts.
func TestOrderOfRules(t *testing.T) {
	p := Ordered(
		SkipIf("of no use", is(errBad)), PermanentIs(errBad, errDown), PermanentAs[*typed](),
		PermanentIf(is(context.Canceled)), SkipIf("never seen", is(context.Canceled)),
	)
	for _, c := range []struct {
		name    string
		err     error
		verdict Verdict
		reason  string
	}{
		{"the first rule that holds", errBad, Skipped, "of no use"},
		{"the second", errDown, Ended, "permanent"},
		{"by type, wrapped", fmt.Errorf("at: %w", &typed{4}), Ended, "permanent"},
		{"the later rule is not asked", context.Canceled, Ended, "permanent"},
		{"no rule", context.DeadlineExceeded, Again, ""},
		{"a mark before a rule", After(errBad, time.Second), Again, ""},
		{"the mark stands inside", fmt.Errorf("at: %w", errors.Join(errDown, Snooze(time.Second))), Again, ""},
		{"the outermost mark", Permanent(After(context.DeadlineExceeded, time.Second)), Ended, "permanent"},
		{"the first of joined marks", errors.Join(Skip("one"), Permanent(errBad)), Skipped, "one"},
		{"a mark that says skip", Skip("two"), Skipped, "two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := p.Decide(failed(c.err))
			require.Equal(t, c.verdict, d.Verdict)
			require.Equal(t, c.reason, d.Reason)
			require.Equal(t, c.verdict == Again, p.Settings().Attempts > 1 && d.At >= noon)
		})
	}
}

// A rule that fails is a fault of the program. It must not send records to the dead letters, or skip them.
func TestRulePanics(t *testing.T) {
	p := Parallel(ThenDeadLetter(), PermanentIf(func(error) bool { panic("no such column") }))
	d := p.Decide(failed(errBad))
	require.Equal(t, Ended, d.Verdict)
	require.Equal(t, EndStop, d.End)
	require.Equal(t, "the policy panicked on the error: no such column", d.Reason)
	require.False(t, p.AtOnce("process", errBad, 1))
}

func TestAtOnce(t *testing.T) {
	p := Parallel(Inline(3), PermanentIs(errBad), OnDecode(Ordered(Inline(2))))
	for _, c := range []struct {
		name  string
		kind  string
		err   error
		tries int
		want  bool
	}{
		{"the first", "process", errDown, 1, true},
		{"the second", "process", errDown, 2, true},
		{"the last", "process", errDown, 3, false},
		{"permanent", "process", errBad, 1, false},
		{"a time was asked for", "process", After(errDown, time.Second), 1, false},
		{"the policy of the kind", "decode", errDown, 1, true},
		{"and its number", "decode", errDown, 2, false},
		{"no policy for the kind", "produce", errDown, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, p.AtOnce(c.kind, c.err, c.tries))
		})
	}
	require.True(t, Stop(Inline(2)).AtOnce("process", errBad, 1))
	require.False(t, Policy{}.AtOnce("process", errBad, 1))
}

// The tiers of waits must be those of the attempts, and a wait never shorter than its tier (spring-kafka: all waits were the same 10 s).
func TestRegressionEachDelayIsItsOwn(t *testing.T) {
	p := Parallel(Backoff(time.Second, time.Hour), Jitter(0))
	var waits []int64
	now := int64(noon)
	for attempt := 1; attempt <= 3; attempt++ {
		d := p.Decide(Failed{Err: errBad, Attempt: attempt, First: noon, Now: now})
		waits = append(waits, d.At-now)
		now = d.At
	}
	require.Equal(t, []int64{1000, 2000, 4000}, waits)
}

// An error that no try will mend goes to its end at the first try, whatever the tiers are, and only there.
func TestRegressionFatalErrorEndsOnce(t *testing.T) {
	for _, kind := range []string{"process", "panic", "emit"} {
		d := Parallel(Attempts(Forever), Backoff(time.Hour, time.Hour), PermanentIs(errBad), ThenDeadLetter()).
			Decide(Failed{Err: fmt.Errorf("at: %w", errBad), Kind: kind, Attempt: 1, First: noon, Now: noon})
		require.Equal(t, Ended, d.Verdict, kind)
		require.Equal(t, EndDeadLetter, d.End, kind)
		require.True(t, d.Permanent, kind)
		require.False(t, d.Counts, kind)
		require.Zero(t, d.At, kind)
	}
}

// Numbers out of headers or an old store: an attempt below one or beyond counting, a first failure in the future or before all time.
func TestRegressionForgedNumbersAreBounded(t *testing.T) {
	p := KeyOrdered(Jitter(0), Backoff(time.Second, time.Minute), MaxAge(time.Hour))
	for _, c := range []struct {
		name    string
		failed  Failed
		verdict Verdict
		at      int64
		attempt int
	}{
		{"attempt below one", Failed{Attempt: math.MinInt, First: noon, Now: noon}, Again, noon + 1000, 1},
		{"attempt beyond counting", Failed{Attempt: math.MaxInt, First: noon, Now: noon}, Ended, 0, math.MaxInt32},
		{"first in the future", Failed{Attempt: 1, First: math.MaxInt64, Now: noon}, Again, noon + 1000, 1},
		{"first before all time", Failed{Attempt: 1, First: math.MinInt64, Now: noon}, Again, noon + 1000, 1},
		{"now before all time", Failed{Attempt: 1, First: noon, Now: math.MinInt64}, Again, 1000, 1},
		{"now at its end", Failed{Attempt: 1, First: math.MaxInt64, Now: math.MaxInt64}, Again, math.MaxInt64, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.failed.Err = errBad
			d := p.Decide(c.failed)
			require.Equal(t, c.verdict, d.Verdict)
			require.Equal(t, c.at, d.At)
			require.Equal(t, c.attempt, d.Attempt)
		})
	}
}

// A record that cannot be decoded follows a policy like any other failure: by default it is not tried again, and where one is named for it,
// it ends as that says. There is no restart that meets it again and again.
func TestRegressionDecodeErrorFollowsThePolicy(t *testing.T) {
	once := Ordered(Attempts(Forever), ThenDeadLetter())
	twice := Parallel(ThenDeadLetter(), OnDecode(Ordered(Attempts(2), ThenSkip())), OnProduce(Ordered(Attempts(2), ThenDeadLetter())))
	for _, c := range []struct {
		name    string
		policy  Policy
		kind    string
		attempt int
		verdict Verdict
		end     End
	}{
		{"decode, at once", once, "decode", 1, Ended, EndDeadLetter},
		{"timestamp, at once", once, "timestamp", 1, Ended, EndDeadLetter},
		{"encode stops", once, "encode", 1, Ended, EndStop},
		{"produce stops", once, "produce", 1, Ended, EndStop},
		{"decode, named, tried again", twice, "decode", 1, Again, EndStop},
		{"decode, named, ends", twice, "decode", 2, Ended, EndSkip},
		{"encode, named, tried again", twice, "encode", 1, Again, EndStop},
		{"encode, named, ends", twice, "encode", 2, Ended, EndDeadLetter},
		{"produce, named, ends", twice, "produce", 2, Ended, EndDeadLetter},
		{"timestamp has none of its own", twice, "timestamp", 1, Ended, EndDeadLetter},
		{"all else is the policy's", twice, "process", 2, Again, EndStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Failed{Err: errBad, Kind: c.kind, Attempt: c.attempt, First: noon, Now: noon}
			d := c.policy.Decide(f)
			require.Equal(t, c.verdict, d.Verdict)
			require.Equal(t, c.end, d.End)
			require.Equal(t, d, c.policy.For(c.kind).Decide(f), "asked through For")
		})
	}
	asked := once.Decide(Failed{Err: After(errBad, time.Second), Kind: "decode", Attempt: 1, First: noon, Now: noon})
	require.Equal(t, Again, asked.Verdict, "the error knows better: a schema is not there yet")
}

// Attempt 310 is beyond what a Duration, and attempt 1,100 beyond what a float can hold at a factor of 2.
func TestRegressionNoOverflowAtAttempt310(t *testing.T) {
	p := Ordered(Attempts(Forever), Backoff(time.Second, 24*time.Hour), Jitter(0))
	for _, attempt := range []int{18, 64, 310, 1_100, math.MaxInt32} {
		d := p.Decide(Failed{Err: errBad, Attempt: attempt, First: noon, Now: noon})
		require.Equal(t, Again, d.Verdict, attempt)
		require.Equal(t, int64(noon+24*3_600_000), d.At, attempt)
	}
}

// Rejects are not slowed down by anything that was not asked for.
func TestRegressionRejectsAreNotThrottled(t *testing.T) {
	p := Parallel(Backoff(0, 0), Attempts(2), ThenDeadLetter(), PermanentIs(errBad))
	require.Zero(t, p.Settings().Flood)
	c := NewCircuit(p.Settings())
	for range 10_000 {
		d := p.Decide(failed(errBad))
		require.Equal(t, Ended, d.Verdict)
		require.Zero(t, d.At)
		require.False(t, d.Counts)
		require.False(t, c.Open())
	}
	require.Equal(t, int64(noon), p.Decide(failed(errDown)).At, "no wait is no wait")
}

func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawPolicy(t)
		p := named(ModeParallel, s)
		require.NoError(t, p.Validate())
		f := Failed{
			Err:     drawError(t),
			Kind:    rapid.SampledFrom([]string{"process", "panic", "decode", "encode", "produce", "store", ""}).Draw(t, "kind"),
			Attempt: rapid.Int().Draw(t, "attempt"),
			First:   rapid.Int64().Draw(t, "first"),
			Now:     rapid.Int64().Draw(t, "now"),
			Rand:    rapid.Uint64().Draw(t, "rand"),
		}
		d := p.Decide(f)
		require.Equal(t, d, p.Decide(f), "the same failure, the same decision")
		require.GreaterOrEqual(t, d.Attempt, 0)
		require.LessOrEqual(t, d.Attempt, math.MaxInt32)
		require.True(t, d.Class != "" || f.Err == nil && f.Kind == "")
		if d.Verdict != Again {
			require.NotEmpty(t, d.Reason)
			require.Zero(t, d.At)
			return
		}
		require.GreaterOrEqual(t, d.At, max(f.Now, 0), "never in the past")
		if set := p.Settings(); set.MaxAge > 0 {
			require.LessOrEqual(t, d.At, later(max(f.Now, 0), set.MaxAge), "never past the age")
		}
	})
}

// Whatever fails, and however: with a limit of age and virtual time that follows the decisions, every record comes to an end.
func TestEveryRecordEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := KeyOrdered(Attempts(rapid.SampledFrom([]int{1, 3, 50, Forever}).Draw(t, "attempts")), MaxAge(time.Minute),
			Backoff(time.Second, 10*time.Second))
		now, kept := int64(noon), 0
		for tries := 1; ; tries++ {
			require.LessOrEqual(t, tries, 200)
			d := p.Decide(Failed{
				Err:     rapid.SampledFrom([]error{errBad, Snooze(time.Second), After(errBad, 2*time.Second)}).Draw(t, "err"),
				Attempt: kept + 1, First: noon, Now: now, Rand: rapid.Uint64().Draw(t, "rand"),
			})
			if d.Verdict != Again {
				require.Equal(t, Ended, d.Verdict)
				require.LessOrEqual(t, now-noon, int64(60_000))
				return
			}
			require.Greater(t, d.At, now)
			now, kept = d.At, d.Attempt
		}
	})
}

func drawPolicy(t *rapid.T) []Option {
	first := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "first wait"))
	return []Option{
		Attempts(rapid.SampledFrom([]int{1, 2, 10, 1000, Forever}).Draw(t, "attempts")),
		Backoff(first, first+time.Duration(rapid.Int64Range(0, math.MaxInt64-int64(time.Hour)).Draw(t, "more"))),
		Factor(rapid.Float64Range(1, 1e300).Draw(t, "factor")),
		Jitter(rapid.Float64Range(0, 1).Draw(t, "jitter")),
		MaxAge(rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour, math.MaxInt64}).Draw(t, "age")),
	}
}

func drawError(t *rapid.T) error {
	d := time.Duration(rapid.Int64().Draw(t, "wait"))
	return rapid.SampledFrom([]error{nil, errBad, Permanent(errBad), Skip("so"), Snooze(d), After(errDown, d)}).Draw(t, "err")
}
