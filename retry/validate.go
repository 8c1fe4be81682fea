package retry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Validate says all that is wrong with the policy, each with its remedy. The zero Policy is right.
func (p Policy) Validate() error {
	if !p.named {
		return nil
	}
	c := &check{p: p}
	c.faults = append(c.faults, p.faults...)
	c.numbers()
	c.modes()
	c.ends()
	c.nested("OnDecode", p.decode)
	c.nested("OnProduce", p.produce)
	for i, err := range c.faults {
		c.faults[i] = fmt.Errorf("retry: %w", err)
	}
	return errors.Join(c.faults...)
}

// check collects the faults of one policy.
type check struct {
	p      Policy
	faults []error
}

func (c *check) fault(wrong bool, format string, args ...any) {
	if wrong {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// numbers checks what can be said of a number alone.
func (c *check) numbers() {
	s := c.p.set
	c.fault(s.Inline < 1, "Inline(%d): the first try is one of them, at least 1", s.Inline)
	c.fault(s.Attempts < 1 && s.Attempts != Forever, "Attempts(%d): at least 1, or retry.Forever", s.Attempts)
	c.fault(s.First < 0 || s.Most < 0, "Backoff(%v, %v): a wait cannot be negative, 0 is no wait", s.First, s.Most)
	c.fault(s.First > s.Most, "Backoff(%v, %v): the longest wait comes second", s.First, s.Most)
	c.fault(!(s.Factor >= 1) || math.IsInf(s.Factor, 1), "Factor(%v): at least 1, which keeps all waits the same", s.Factor)
	c.fault(!(s.Jitter >= 0 && s.Jitter <= 1), "Jitter(%v): a part from 0 to 1", s.Jitter)
	c.fault(s.MaxAge < 0, "MaxAge(%v): 0 is no limit", s.MaxAge)
	c.fault(s.MaxAge > 0 && s.MaxAge < time.Millisecond, "MaxAge(%v): at least 1ms, 0 is no limit", s.MaxAge)
	c.fault(s.Timeout < 0, "Timeout(%v): 0 is none", s.Timeout)
	c.fault(s.Workers < 1, "Workers(%d): at least 1, which is the task's own goroutine", s.Workers)
	c.fault(s.Crashes < 1, "Crashes(%d): at least 1", s.Crashes)
	c.fault(s.Depth < 1, "Depth(%d): at least 1", s.Depth)
	c.fault(s.Parked < 1 || s.ParkedBytes < 1, "Parked(%d, %d): at least one record and one byte; use Ordered to put none aside", s.Parked, s.ParkedBytes)
	c.fault(s.Flood < 0, "Flood(%d): 0 is no limit", s.Flood)
	c.fault(c.p.has("Breaker") && (s.Row < 1 || s.Probe < time.Millisecond) && !c.p.has("NoBreaker"),
		"Breaker(%d, %v): at least one failure and 1ms; use NoBreaker for none", s.Row, s.Probe)
}

// parking are the options that only mean something where records are put aside.
var parking = []string{"Timeout", "Parked"}

// trying are the options that only mean something where there is a second attempt.
var trying = []string{"Attempts", "Backoff", "Factor", "Jitter", "MaxAge", "Breaker"}

// modes checks that every option means something in the policy's mode: what is named and does nothing is a mistake.
func (c *check) modes() {
	mode := c.p.set.Mode
	aside := mode.PutsAside()
	for _, part := range trying {
		c.fault(mode == ModeStop && c.p.has(part), "%s with Stop: there is no second attempt; use Ordered, which stops at the end", part)
	}
	for _, part := range parking {
		c.fault(!aside && c.p.has(part), "%s with %v: no record is put aside; use KeyOrdered or Parallel, or leave it out", part, mode)
	}
	c.fault(!aside && c.p.set.Workers > 1, "Workers(%d) with %v: records run one after the other; use KeyOrdered or Parallel, or leave it out",
		c.p.set.Workers, mode)
	c.fault(aside && c.p.set.DrainFirst, "DrainFirst with %v: what is put aside is run beside the main path anyway; leave it out", mode)
	for _, part := range []string{"Depth", "WithFollowers"} {
		c.fault(mode != ModeKeyOrdered && c.p.has(part), "%s with %v: no record waits behind another; use KeyOrdered, or leave it out", part, mode)
	}
}

// ends checks what happens when a record has failed for good.
func (c *check) ends() {
	s := c.p.set
	var named []string
	for _, part := range c.p.parts {
		if strings.HasPrefix(part, "Then") && !slices.Contains(named, part) {
			named = append(named, part)
		}
	}
	c.fault(len(named) > 1, "%s: a record has one end; leave one of them", strings.Join(named, " and "))
	c.fault(s.Mode == ModeStop && s.Then != EndStop,
		"%s with Stop: use Ordered(Attempts(1), …), which goes on after the end of a record", strings.Join(named, " and "))
	if slices.Contains(named, "ThenDeadLetterTo") {
		if why := topicFault(s.Topic); why != "" {
			c.fault(true, "ThenDeadLetterTo(%q): %s", s.Topic, why)
		}
	}
	c.fault(s.Followers > FollowersStop, "WithFollowers(%d): FollowersGoOn, FollowersToo or FollowersStop", s.Followers)
	c.fault(s.Rows > EndSkip, "Rows(%d): EndStop, EndDeadLetter or EndSkip", s.Rows)
}

// topicFault says why Kafka takes no topic of the name.
func topicFault(name string) string {
	switch {
	case name == "":
		return "a topic has a name; ThenDeadLetter has one of its own"
	case name == "." || name == "..":
		return "Kafka keeps that name for itself"
	case len(name) > 249:
		return fmt.Sprintf("%d characters, Kafka takes 249", len(name))
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-' {
			return fmt.Sprintf("Kafka takes letters, digits, '.', '_' and '-', not %q", r)
		}
	}
	return ""
}

// wide are the options that are about a whole task, and so stand on its policy alone.
var wide = []string{"Workers", "Timeout", "Crashes", "Depth", "Parked", "Flood", "Breaker", "NoBreaker", "WithFollowers", "Rows", "DrainFirst"}

// nested checks the policy of one kind of failures. It may keep the order better than the one it is part of, and not put records aside
// where that one does not.
func (c *check) nested(option string, q *Policy) {
	if q == nil {
		return
	}
	c.fault(q.decode != nil || q.produce != nil, "%s: the policy in it has an OnDecode or OnProduce of its own, which nothing would use; leave it out",
		option)
	for _, part := range wide {
		c.fault(q.has(part), "%s: the policy in it has %s, which is about the whole task; name it beside %s", option, part, option)
	}
	c.fault(q.set.Mode > ModeOrdered && q.set.Mode != c.p.set.Mode, "%s(%v) with %v: it may be Stop, Ordered, or the mode of the policy it is part of",
		option, q.set.Mode, c.p.set.Mode)
	inner := check{p: *q, faults: slices.Clone(q.faults)}
	inner.numbers()
	inner.modes()
	inner.ends()
	for _, err := range inner.faults {
		c.fault(true, "%s: %w", option, err)
	}
}
