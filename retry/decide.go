package retry

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// rule says how errors are to be taken that it holds for.
type rule struct {
	say said
	is  func(error) bool
}

// Failed is a try that has failed.
type Failed struct {
	Err  error
	Kind string // of the task's error: decode, encode, process, panic …
	Node string
	// Attempt is how many tries have failed, this one included; the inline ones of one go are one try.
	Attempt int
	First   int64  // when the record failed first, ms; below zero where that is not known
	Now     int64  // ms
	Rand    uint64 // any number, for the jitter
}

// Verdict is what happens next to a record that has failed.
type Verdict uint8

const (
	// Again is another try.
	Again Verdict = iota
	// Ended is the policy's end.
	Ended
	// Skipped is a record that was asked to be skipped.
	Skipped
)

// String is the verdict in lower case.
func (v Verdict) String() string { return nameOf(int(v), "again", "ended", "skipped") }

// Decision is what a policy makes of a failure.
type Decision struct {
	Verdict Verdict
	At      int64 // of Again: not before that, ms
	Attempt int   // to be kept with the record: a Snooze gives its own back
	Class   string
	Reason  string // why it is not tried again, for people
	End     End    // of Ended; EndSkip of Skipped
	// Permanent says that the error would have ended any record at its first try.
	Permanent bool
	// Counts says that the failure may be one of an outage, and is for the [Circuit]: it is neither permanent, nor skipped, nor a Snooze.
	Counts bool
}

// AtOnce says whether a try that has failed is to be made again at once, after so many tries in one go (this one included).
func (p Policy) AtOnce(kind string, err error, tries int) bool {
	p = p.For(kind)
	return tries < p.Settings().Inline && p.word(kind, err).what == nothing
}

// Decide says what becomes of a record whose try has failed. What the error says of itself ([Permanent], [Skip], [Snooze], [After]) counts
// more than the policy's rules, of which the first that matches counts; after them come the attempts, and then the age. Numbers that cannot
// be (they may come out of a record's headers) are taken for the nearest that can.
func (p Policy) Decide(f Failed) Decision {
	p = p.For(f.Kind)
	s := p.Settings()
	f.bound()
	w := p.word(f.Kind, f.Err)
	d := Decision{Attempt: f.Attempt, Class: Class(f.Kind, f.Err), Counts: w.what == nothing || w.what == after}
	switch {
	case w.what == broken:
		return d.ended(EndStop, w.reason) // a policy that fails must not send records anywhere
	case w.what == skip:
		d.Verdict, d.End, d.Reason = Skipped, EndSkip, w.reason
		return d
	case w.what == permanent:
		d.Permanent = true
		return d.ended(s.Then, "permanent")
	case s.Mode == ModeStop:
		return d.ended(s.Then, "the policy is Stop")
	case w.what != snooze && s.Attempts != Forever && f.Attempt >= s.Attempts:
		return d.ended(s.Then, fmt.Sprintf("attempts used up (%d)", s.Attempts))
	case s.MaxAge > 0 && f.Now-f.First >= s.MaxAge.Milliseconds():
		d.Class = classExpired
		return d.ended(s.Then, fmt.Sprintf("older than MaxAge (%v)", s.MaxAge))
	}
	if w.what == snooze {
		d.Attempt--
	}
	d.At = s.next(f, w)
	return d
}

func (d Decision) ended(end End, reason string) Decision {
	d.Verdict, d.End, d.Reason = Ended, end, reason
	return d
}

// bound brings numbers into their range: they may have been read from a store of an older version, or from a record's headers.
func (f *Failed) bound() {
	f.Attempt = min(max(f.Attempt, 1), math.MaxInt32)
	f.Now = max(f.Now, 0)
	if f.First < 0 || f.First > f.Now {
		f.First = f.Now
	}
}

// word is what the error says of itself, or else what the first rule says that holds for it. Errors and rules are the user's code: a panic
// in one of them is an answer too.
func (p Policy) word(kind string, err error) (w said) {
	defer func() {
		if r := recover(); r != nil {
			w = said{what: broken, reason: fmt.Sprintf("the policy panicked on the error: %v", r)}
		}
	}()
	if s, ok := errors.AsType[*said](err); ok {
		return *s
	}
	for _, r := range p.rules {
		if r.is(err) {
			return r.say
		}
	}
	if !p.only && hopeless(kind) {
		return said{what: permanent}
	}
	return said{}
}

// hopeless are the kinds of failures that the same bytes will have again. A policy named for them alone may know better.
func hopeless(kind string) bool {
	return kind == kindDecode || kind == kindEncode || kind == kindTimestamp || kind == kindProduce
}

// next is when the next try may come. It comes no later than MaxAge allows.
func (s Settings) next(f Failed, w said) int64 {
	wait := w.wait
	switch {
	case w.what == snooze && wait <= 0:
		wait = max(s.First, time.Millisecond)
	case w.what == nothing:
		wait = s.wait(f.Attempt, f.Rand)
	}
	at := later(f.Now, wait)
	if s.MaxAge > 0 {
		at = min(at, later(f.First, s.MaxAge))
	}
	return at
}
