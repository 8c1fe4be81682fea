package retry_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/retry"
)

var errMalformed = errors.New("malformed order")

// A policy reads in the order of events.
func Example() {
	policy := retry.KeyOrdered(
		retry.SkipIf("a test order", func(err error) bool { return err.Error() == "test" }),
		retry.PermanentIs(errMalformed),
		retry.Inline(2), retry.Attempts(5), retry.Backoff(time.Second, time.Minute), retry.Jitter(0),
		retry.ThenDeadLetter(),
	)
	for _, err := range []error{
		errors.New("connection refused"),
		fmt.Errorf("order 7: %w", errMalformed),
		errors.New("test"),
		retry.After(errors.New("too many requests"), 30*time.Second),
	} {
		d := policy.Decide(retry.Failed{Err: err, Kind: "process", Attempt: 1})
		switch d.Verdict {
		case retry.Again:
			fmt.Printf("%v: again after %v\n", err, time.Duration(d.At)*time.Millisecond)
		default:
			fmt.Printf("%v: %v, %v (%s)\n", err, d.Verdict, d.End, d.Reason)
		}
	}
	// Output:
	// connection refused: again after 1s
	// order 7: malformed order: ended, dead letter (permanent)
	// test: skipped, skip (a test order)
	// too many requests: again after 30s
}
