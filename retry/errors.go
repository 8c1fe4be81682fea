package retry

import (
	"errors"
	"fmt"
	"time"
)

// what an error asks for.
type what uint8

const (
	nothing what = iota
	permanent
	skip
	snooze
	after
	broken // a rule has panicked
)

// said is what an error, or a rule, says about how the failure is to be taken. As an error it wraps the one it speaks of, if any.
type said struct {
	what   what
	wait   time.Duration
	reason string
	err    error
}

// Permanent marks an error that no further try will mend: the record goes straight to its end. Permanent(nil) is nil. Where an error holds
// several such marks the outermost counts, and a mark counts more than the rules of the policy.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &said{what: permanent, err: err}
}

// Skip is the error of a record that is to be skipped: what it has done so far is dropped, it is counted, and the task goes on.
func Skip(reason string) error { return &said{what: skip, reason: reason} }

// Snooze is the error of a record that comes too early: it is tried again after the time given, at least 1 ms, and this try does not count
// as an attempt. MaxAge ends it, and Stop knows no second try. With 0 or less the wait is the first one of the policy's back-off.
func Snooze(d time.Duration) error { return &said{what: snooze, wait: d} }

// After marks an error that says itself when the next try makes sense. It counts as an attempt; the time takes the place of the policy's
// back-off, at once for 0 or less. After(nil, d) is nil.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &said{what: after, wait: d, err: err}
}

func (s *said) Error() string {
	switch s.what {
	case skip:
		return "skip: " + s.reason
	case snooze:
		return fmt.Sprintf("snooze for %v", s.wait)
	}
	return s.err.Error()
}

func (s *said) Unwrap() error { return s.err }

// classExpired is the class of a record that has been tried for longer than MaxAge.
const classExpired = "expired"

// The kinds of failures that are taken in their own way.
const (
	kindDecode    = "decode"
	kindEncode    = "encode"
	kindTimestamp = "timestamp"
	kindProduce   = "produce"
	kindPanic     = "panic"
)

// Class is what failures are sorted by, in dead letters and by the breaker: the type of the innermost error (of joined ones the first),
// "panic" for a panic, "skip" and "snooze" for those of this package.
func Class(kind string, err error) string {
	if kind == kindPanic {
		return kindPanic
	}
	inner := innermost(err)
	if s, ok := inner.(*said); ok { //nolint:errorlint // it was unwrapped already
		if s.what == skip {
			return "skip"
		}
		return "snooze"
	}
	if inner == nil {
		return kind
	}
	return fmt.Sprintf("%T", inner)
}

// innermost unwraps an error. An Unwrap that panics ends it there: this is called for errors of the user's making.
func innermost(err error) (inner error) {
	defer func() { _ = recover() }()
	for err != nil {
		inner = err
		err = unwrap(err)
	}
	return inner
}

func unwrap(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // one step at a time
		for _, e := range joined.Unwrap() {
			if e != nil {
				return e
			}
		}
		return nil
	}
	return errors.Unwrap(err)
}
