package consume

import (
	"errors"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// Machine is a consumer. One goroutine at a time calls its methods.
type Machine struct {
	cfg  Config
	now  time.Time
	out  []Action
	wake time.Time

	begun, closing, ended bool
	closeBy               time.Time // commits are given up then
	fatal                 error     // no retry mends it

	requests uint64
	lives    uint64 // of partitions, counted over all
	fetches  uint64 // tells what was fetched before a seek from what is fetched after it

	parts   map[task.TopicPartition]*part
	order   []*part // of parts, sorted
	turn    int     // whose turn it is in Take
	gapTurn int     // the same of gaps
	polls   int     // that were too small for a share of what was left behind

	topics  topics
	routing routing
	begins  begins
	member  membership
	commits commits
	tells   []Tell
	loading bool // a TellLoad is out
	faults  []error
}

// New returns a machine that waits for Begin.
func New(cfg Config) *Machine {
	cfg = cfg.withDefaults()
	m := &Machine{cfg: cfg, parts: map[task.TopicPartition]*part{}}
	m.member = membership{machine: group.New(cfg.Group), generation: -1}
	m.topics = topics{ids: map[string]int32{}, names: map[int32]string{}, counts: map[string]int32{}, missing: map[string]absence{}, said: map[string]time.Time{}}
	m.routing.leaders, m.routing.topics = map[task.TopicPartition]engine.Leader{}, map[string]retry.TopicID{}
	return m
}

// Step tells the machine what happened and returns what is to be done. The slice is used again by the next Step or Take.
func (m *Machine) Step(now time.Time, ev Event) []Action {
	m.now, m.out = now, m.out[:0]
	m.checkLease()
	switch ev := ev.(type) {
	case Begin:
		m.begin()
	case Tick:
		m.wake = time.Time{}
		m.stepMember(group.Tick{})
	case Member:
		m.onMember(ev.Event)
	case Metadata:
		m.onMetadata(ev)
	case OffsetsFetched:
		m.onFetched(ev)
	case OffsetsListed:
		m.onListed(ev)
	case OffsetsCommitted:
		m.onCommitted(ev)
	case Arrived:
		m.onArrived(ev.Deliver)
	case PartMoved:
		m.onMoved(ev.Lost)
	case PartStopped:
		m.onStopped(ev.Failed)
	case Troubled:
		m.trouble(ev.What, ev.Err)
	case Polled:
		m.onPolled()
	case Assign:
		m.assign(ev)
	case Unassign:
		m.unassign(ev.Parts)
	case Seek:
		m.seek(ev)
	case Pause:
		m.pause(ev)
	case Commit:
		m.commit(ev)
	case Loaded:
		m.onLoaded(ev)
	case Saved:
		m.onSaved(ev)
	case Told:
		m.onTold(ev.Revocation)
	case Close:
		m.close()
	}
	m.settle()
	return m.out
}

// settle does what has become possible.
func (m *Machine) settle() {
	if m.ended {
		return
	}
	if !m.begun {
		m.flushCommits()
		return
	}
	m.refreshWhenDue()
	m.askBegins()
	m.connect()
	m.settleRecovery()
	m.commitWhenDue()
	m.giveUpCommits()
	m.settleHandovers()
	m.settleEnd()
	m.flushCommits()
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) request() uint64 {
	m.requests++
	return m.requests
}

func (m *Machine) wakeAt(t time.Time) {
	if m.wake.IsZero() || t.Before(m.wake) {
		m.wake = t
		m.do(Wake{At: t})
	}
}

func (m *Machine) backoff(tries int) time.Duration {
	return min(m.cfg.Backoff<<min(tries, 10), time.Second)
}

func (m *Machine) begin() {
	if m.begun || m.ended {
		return
	}
	m.begun = true
	if m.cfg.Manual {
		m.changed(group.Joined, "partitions are given by hand")
	}
	m.refresh()
}

// tell queues something for user code.
func (m *Machine) tell(t Tell) {
	m.tells = append(m.tells, t)
	m.do(Ready{})
}

// Fault is what a Poll has to return, nil if all is well. Idle says that the Poll has found nothing else: then also what was returned
// before and is not mended.
func (m *Machine) Fault(idle bool) error {
	if m.fatal != nil {
		return m.fatal
	}
	if err := m.NextFault(); err != nil || !idle {
		return err
	}
	if m.topics.fault != nil {
		return m.topics.fault
	}
	for _, p := range m.order {
		if p.fault != nil {
			return p.fault
		}
	}
	return nil
}

// NextFault takes what was not returned before, nil if there is nothing.
func (m *Machine) NextFault() error {
	if len(m.faults) == 0 {
		return nil
	}
	err := m.faults[0]
	m.faults = slices.Delete(m.faults, 0, 1)
	return err
}

// fault is returned by the next Poll.
func (m *Machine) fault(err error) {
	m.faults = append(m.faults, err)
	m.do(Ready{})
}

// fail ends the consumer with an error.
func (m *Machine) fail(err error) {
	if m.fatal == nil {
		m.fatal = err
		m.do(Ready{})
	}
}

// outageAfter is how many tries in a row may fail before that is said.
const outageAfter = 3

// trouble counts what fails in a row for want of brokers.
func (m *Machine) trouble(what string, err error) {
	if err == nil {
		m.routing.outage, m.routing.said = 0, false
		return
	}
	m.do(Note{What: what, Err: err})
	var none *BrokersError
	if !errors.As(err, &none) {
		return
	}
	m.routing.outage++
	if m.routing.outage >= outageAfter && !m.routing.said {
		m.routing.said = true
		m.fault(none)
	}
	if m.routing.outage >= outageAfter {
		m.tellRetry(what, err)
	}
}

// tellRetry does not pile up where nobody polls.
func (m *Machine) tellRetry(what string, err error) {
	for _, t := range m.tells {
		if r, is := t.(TellRetry); is && r.What == what {
			return
		}
	}
	m.tell(TellRetry{What: what, Err: err})
}

// close begins the end.
func (m *Machine) close() {
	if m.closing {
		return
	}
	m.closing = true
	if !m.begun {
		m.ended = true
		m.do(Ended{})
		return
	}
	m.closeBy = m.now.Add(closePatience)
	m.revoke(slices.Clone(m.order))
}

// settleEnd leaves the group when everything is handed over.
func (m *Machine) settleEnd() {
	if !m.closing || m.member.left || slices.ContainsFunc(m.order, func(p *part) bool { return p.phase != released }) {
		return
	}
	m.flushCommits()
	if c := &m.commits; len(c.queue) > 0 || len(c.also) > 0 || c.alsoWay != 0 {
		return
	}
	m.member.left = true
	for _, p := range slices.Clone(m.order) {
		m.end(p, "the consumer is closed")
	}
	if m.cfg.Manual {
		m.rest("the consumer was closed")
		return
	}
	m.member.reason = "the consumer was closed"
	m.stepMember(group.Stop{})
}

// rest is the end of the machine.
func (m *Machine) rest(reason string) {
	if m.ended {
		return
	}
	m.changed(group.Stopped, reason)
	m.ended = true
	m.refuseAll("the consumer is closed")
	m.do(Ended{})
	m.do(Ready{})
}

// sort keeps the order of the partitions.
func (m *Machine) sort() {
	m.order = m.order[:0]
	for _, p := range m.parts {
		m.order = append(m.order, p)
	}
	slices.SortFunc(m.order, func(a, b *part) int { return a.tp.Compare(b.tp) })
	m.share()
}

// share gives each path its part of the memory.
func (m *Machine) share() {
	n := len(m.order)
	for _, p := range m.order {
		if p.gap != nil && p.gap.reads() {
			n++
		}
	}
	bound := m.cfg.bound(n)
	for _, p := range m.order {
		for _, w := range p.paths() {
			if w == nil || w.bound == bound {
				continue
			}
			w.bound = bound
			if w.broker >= 0 {
				m.do(Fetch{Purpose: w.purpose, Broker: w.broker, Event: engine.FetchBound{Source: p.source(w), Bound: bound}})
			}
		}
	}
}
