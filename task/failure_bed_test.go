package task

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// flaky is a graph whose node writes a count of the key, sends the record on, and then fails as often as it is told to: so a failed unit has
// something to leave behind.
type flaky struct {
	fails map[string]int   // tries to come that fail, by value; below zero is all of them
	how   map[string]error // with what; errBad otherwise
	runs  []string         // values that were tried, in order
	ran   map[string]int
}

func newFlaky() *flaky {
	return &flaky{fails: map[string]int{}, how: map[string]error{}, ran: map[string]int{}}
}

// spec reads "in", and what comes back from the dead letters where the policy can have some.
func (f *flaky) spec(p retry.Policy) *Spec {
	s := &Spec{
		Inputs: []Input{{Topic: "in"}}, Dests: []Dest{{Topic: "out"}, {Topic: "dlq"}}, Failure: p,
		Stores: []Store{{Spec: statestore.Spec{Name: "counts"}, Changelog: "counts-changelog"}},
		Build: func(e *Env) (*Graph, error) {
			c := &counter{e: e, store: e.Store(0), atCommit: true}
			return &Graph{Inputs: []func(*Record){func(r *Record) { f.process(e, c, r) }, nil}}, nil
		},
	}
	set := p.Settings()
	if set.Then == retry.EndDeadLetter || set.Rows == retry.EndDeadLetter {
		s.Inputs[0].DeadLetters = 2
	}
	s.Inputs = append(s.Inputs, Input{Topic: "redrive", Redrives: 1, DeadLetters: s.Inputs[0].DeadLetters})
	if set.Mode == retry.ModeKeyOrdered || set.Mode == retry.ModeParallel {
		s.Stores = append(s.Stores, Store{Spec: statestore.Spec{Name: "in-retry", Ordered: true}, Changelog: "in-retry"})
		s.Retries = 2
	}
	return s
}

func (f *flaky) process(e *Env, c *counter, r *Record) {
	v := string(r.Value)
	f.runs = append(f.runs, v)
	f.ran[v]++
	c.process(r)
	e.Send(0, 0, append(append(e.Tail(), r.Key...), r.Value...), size(r.Key), size(r.Value), r.Timestamp, r.Headers)
	if f.fails[v] == 0 {
		return
	}
	f.fails[v]--
	err := errBad
	if how := f.how[v]; how != nil {
		err = how
	}
	if errors.Is(err, errKill) {
		runtime.Goexit()
	}
	var p panicking
	if errors.As(err, &p) {
		panic(p)
	}
	e.Fail("flaky", KindProcess, err)
}

type panicking struct{}

func (panicking) Error() string { return "panicking" }

// bed is a world with a flaky graph.
type bed struct {
	*world
	*flaky
	cfg Config
}

func newBed(t testing.TB, p retry.Policy) *bed {
	f := newFlaky()
	b := &bed{flaky: f, cfg: Config{Spec: f.spec(p), CommitInterval: time.Hour}}
	b.world = newWorld(t, b.cfg)
	b.work()
	return b
}

// bring brings records given as key:value, with the offsets that come next.
func (b *bed) bring(records ...string) {
	var rs []Record
	next := b.owner.t.in.all[0].end
	for _, r := range records {
		k, v, _ := strings.Cut(r, ":")
		rs = append(rs, rec(next, k, v, 1000+next))
		next++
	}
	b.feed(0, batch(next, rs...))
}

// until lets time pass in steps as the task asks for, until nothing is to be waited for or so many steps are done.
func (b *bed) until(steps int) {
	for range steps {
		if b.wake.Sub(b.now) > 10*time.Minute {
			return // it waits for the next commit
		}
		if b.wake.IsZero() || !b.wake.After(b.now) {
			b.now = b.now.Add(1e6)
		} else {
			b.now = b.wake
		}
		b.step(Tick{})
		b.work()
	}
}

func (b *bed) outs() string { return strings.Join(b.out["out-0"], " ") }

func (b *bed) letters() (n int) {
	for _, p := range []string{"dlq-0", "dlq-1"} {
		n += len(b.out[p])
	}
	return n
}

func (b *bed) stats() FailureStats { return b.owner.Stats().Failures }

// crash starts anew from what is committed, as a process that was killed.
func (b *bed) crash() {
	b.start(b.cfg)
	b.unacked, b.seals = nil, nil
	b.step(Tick{})
	b.work()
}

func (b *bed) commitNow() {
	b.step(Commit{})
	b.work()
}

func counted(n int, ts int64) string { return fmt.Sprintf("%d@%d", n, ts) }
