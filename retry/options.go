package retry

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Option is one part of a policy. Where one is named twice the last one counts; rules add up, and the first that matches decides.
type Option struct {
	name  string
	apply func(*Policy)
}

func set(name string, apply func(*Settings)) Option {
	return Option{name, func(p *Policy) { apply(&p.set) }}
}

// Inline is the number of tries made at once, before the failure is taken for one: they count as one attempt. Defaults to 1.
func Inline(tries int) Option { return set("Inline", func(s *Settings) { s.Inline = tries }) }

// Attempts is the number of tries in all, or [Forever]. Forever means it: unless MaxAge is named as well nothing ends the tries.
// Defaults to 10.
func Attempts(n int) Option { return set("Attempts", func(s *Settings) { s.Attempts = n }) }

// Backoff is the wait after the first failure, and the longest one. Defaults to 100 ms and one minute.
func Backoff(first, most time.Duration) Option {
	return set("Backoff", func(s *Settings) { s.First, s.Most = first, most })
}

// Factor is by how much each wait is longer than the one before, at least 1. Defaults to 2.
func Factor(f float64) Option { return set("Factor", func(s *Settings) { s.Factor = f }) }

// Jitter is the part of a wait that is random, 0 to 1: with 0.2 a wait of one second takes between 0.8 s and 1 s. Defaults to 0.2.
func Jitter(part float64) Option { return set("Jitter", func(s *Settings) { s.Jitter = part }) }

// MaxAge is how long a record may be tried since its first failure, whatever its attempts are, and however often it asks for a [Snooze]. The
// last try comes at that moment at the latest. 0 is no limit. Defaults to 24 h, and to no limit with Attempts(Forever).
func MaxAge(d time.Duration) Option { return set("MaxAge", func(s *Settings) { s.MaxAge = d }) }

// Timeout ends the context of one try on a worker. 0 is none, and the default. For KeyOrdered and Parallel.
func Timeout(d time.Duration) Option { return set("Timeout", func(s *Settings) { s.Timeout = d }) }

// Workers is how many records of a task may be worked on at once. 1 is the task's own goroutine, and the default. While there are new records, those
// that were put aside have a quarter of what is under way; else they have all workers but one, so that what comes does not wait for a call to
// return. For KeyOrdered and Parallel.
func Workers(n int) Option { return set("Workers", func(s *Settings) { s.Workers = n }) }

// Crashes is how often a process may die in the middle of a record until the record is taken for failed. Defaults to 2.
func Crashes(n int) Option { return set("Crashes", func(s *Settings) { s.Crashes = n }) }

// Depth is the largest number of records that wait behind one key; then the task waits. Defaults to 10,000. For KeyOrdered.
func Depth(records int) Option { return set("Depth", func(s *Settings) { s.Depth = records }) }

// Parked is how many records one task may have put aside, and how many bytes they may take; then the task waits. Defaults to 1,000,000
// records and 1 GiB. For KeyOrdered and Parallel.
func Parked(records int, bytes int64) Option {
	return set("Parked", func(s *Settings) { s.Parked, s.ParkedBytes = records, bytes })
}

// Flood is how many dead letters one task may write in a minute; then it waits. 0 is no limit, and the default.
func Flood(perMinute int) Option { return set("Flood", func(s *Settings) { s.Flood = perMinute }) }

// Breaker says when failures are taken for an outage and no longer for bad records: after so many of one processor and class in a row. The
// task then waits, and tries one record after at most the time probe. Defaults to 20 and 5 s.
func Breaker(row int, probe time.Duration) Option {
	return set("Breaker", func(s *Settings) { s.Row, s.Probe = row, probe })
}

// NoBreaker takes every failure for that of the record.
func NoBreaker() Option { return set("NoBreaker", func(s *Settings) { s.Row = 0 }) }

// ThenStop ends the application when a record has failed for good. It is the default.
func ThenStop() Option { return then("ThenStop", EndStop, "") }

// ThenDeadLetter writes a record that has failed for good to the application's dead-letter topic of its source, and goes on.
func ThenDeadLetter() Option { return then("ThenDeadLetter", EndDeadLetter, "") }

// ThenDeadLetterTo writes a record that has failed for good to the topic, which the program or its operators make, and goes on.
func ThenDeadLetterTo(topic string) Option { return then("ThenDeadLetterTo", EndDeadLetter, topic) }

// ThenSkip counts a record that has failed for good, and goes on.
func ThenSkip() Option { return then("ThenSkip", EndSkip, "") }

func then(name string, end End, topic string) Option {
	return set(name, func(s *Settings) { s.Then, s.Topic = end, topic })
}

// WithFollowers says what becomes of the records that wait behind one of their key when that one is dead-lettered or skipped. Defaults to
// FollowersGoOn. For KeyOrdered.
func WithFollowers(f Followers) Option {
	return set("WithFollowers", func(s *Settings) { s.Followers = f })
}

// Rows says what becomes of a row that belongs to no record (the result of a window, a change that a table emits at a commit) when it has
// failed for good. Such rows are always tried in place. Defaults to EndStop.
func Rows(end End) Option { return set("Rows", func(s *Settings) { s.Rows = end }) }

// DrainFirst has a task run the records that an earlier policy has put aside before it takes anything else, those of a key in their order. They
// follow the policy that it stands in: one that fails is tried again while the task waits, and ends as that says. It is for the change to Ordered
// or Stop, and may be taken away when the retry topic is empty; KeyOrdered and Parallel run what is put aside anyway, beside the main path.
func DrainFirst() Option { return set("DrainFirst", func(s *Settings) { s.DrainFirst = true }) }

// PermanentIs takes errors for permanent that are ([errors.Is]) one of those given: such a record is not tried again.
func PermanentIs(errs ...error) Option {
	return Option{"PermanentIs", func(p *Policy) {
		if len(errs) == 0 || slices.Contains(errs, nil) {
			p.fault("PermanentIs without an error, or with nil: name the errors that are permanent")
			return
		}
		targets := slices.Clone(errs)
		p.rule(permanent, "", func(err error) bool {
			return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
		})
	}}
}

// PermanentIf takes errors for permanent of which the function says so. It is called on the task's goroutine and must not block.
func PermanentIf(is func(error) bool) Option {
	return Option{"PermanentIf", func(p *Policy) { p.rule(permanent, "", is) }}
}

// PermanentAs takes errors for permanent that hold ([errors.As]) one of the type.
func PermanentAs[T error]() Option {
	return Option{"PermanentAs", func(p *Policy) {
		p.rule(permanent, "", func(err error) bool { _, ok := errors.AsType[T](err); return ok })
	}}
}

// SkipIf skips records, for the reason given, whose error the function says that of. It is called on the task's goroutine and must not block.
func SkipIf(reason string, is func(error) bool) Option {
	return Option{"SkipIf", func(p *Policy) { p.rule(skip, reason, is) }}
}

// OnDecode is the policy for records that cannot be decoded. Without one they follow the source's policy, and are not tried again: bytes do
// not get better.
func OnDecode(q Policy) Option {
	return Option{"OnDecode", func(p *Policy) { p.decode = p.part("OnDecode", q) }}
}

// OnProduce is the policy for records whose results cannot be encoded, or are refused by the cluster for good. Defaults to Stop.
//
// What a broker refuses after the record was processed (too large since a limit was lowered, a timestamp, what checks records there) is found out
// too late to undo it alone: the task goes back to its last commit, and the record fails in its place when it is made again, so that what came
// after that commit is processed twice. A result that is another one each time it is made is not known again, and ends the application after 32
// times without progress. Rows of stores and dead letters have no policy: their refusal ends the application.
func OnProduce(q Policy) Option {
	return Option{"OnProduce", func(p *Policy) { p.produce = p.part("OnProduce", q) }}
}

func (p *Policy) part(option string, q Policy) *Policy {
	if !q.named {
		p.fault("%s with the zero Policy: make one with Stop, Ordered, KeyOrdered or Parallel", option)
		return nil
	}
	q.only = true
	return &q
}

func (p *Policy) rule(what what, reason string, is func(error) bool) {
	if is == nil {
		p.fault("%s without a function", p.parts[len(p.parts)-1])
		return
	}
	p.rules = append(p.rules, rule{said{what: what, reason: reason}, is})
}

func (p *Policy) has(part string) bool { return slices.Contains(p.parts, part) }

func (p *Policy) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}
