package retry

import (
	"math/bits"
	"slices"
	"time"
)

// CircuitState is where a Circuit stands.
type CircuitState uint8

//	            failures in a row,             the wait is over
//	            or most of the last 100        Probe
//	┌────────┐ ─────────────────────▶ ┌──────┐ ───────────▶ ┌─────────┐
//	│ closed │                        │ open │              │ probing │
//	└────────┘                        └──────┘ ◀─────────── └─────────┘
//	     ▲                                      Failed,          │
//	     └────────────────────────────────────  Release ─────────┘
//	                         Succeeded

const (
	// CircuitClosed takes failures for those of their records.
	CircuitClosed CircuitState = iota
	// CircuitOpen takes them for an outage: nothing is put aside any more, the partition waits.
	CircuitOpen
	// CircuitProbing has one record on its way, to see whether the outage is over.
	CircuitProbing
)

// String is the state in lower case.
func (s CircuitState) String() string { return nameOf(int(s), "closed", "open", "probing") }

// Circuit tells bad records from an outage, for one task: it is what [Breaker] asks for. It counts failures of one processor and class in a
// row; a success of any record ends all rows. An outage of most calls never makes a row, so that many failures among the last outcomes open
// it as well.
//
// While it is open the task waits until Waits, takes one record as a probe ([Circuit.Probe]), and tells how that went. A probe that fails is
// put aside like any other record, and the next record is the next probe: a bad record alone cannot hold it open. What was under way before
// it opened may be told or not: while it is open and has no probe under way, outcomes mean nothing.
type Circuit struct {
	row  int
	most int64 // between two probes, ms

	state  CircuitState
	rows   []streak // of the processors and classes that have failed since the last success
	recent outcomes
	dirty  bool // there is a failure in rows or recent, so that a success has something to do

	node, class string // of the failures that have opened it
	since       int64
	until       int64 // not before that the next probe, ms
	wait        int64 // between the last probe and the next, ms
	openings    int
}

// streak is how often one processor has failed with one class in a row.
type streak struct {
	node, class string
	n           int
}

// How many failures of the last outcomes open the breaker. With half of them, every second record being bad would hold up the good ones.
const (
	circuitOutcomes = 100
	circuitFailures = 90
	// circuitRows bounds the rows: types of errors are few, and with more of them the share of failures decides.
	circuitRows = 16
	// circuitFirst is the wait before the first probe, ms. It doubles with each that fails.
	circuitFirst = 100
)

// NewCircuit is a closed one as the settings say. With NoBreaker it never opens.
func NewCircuit(s Settings) *Circuit {
	return &Circuit{row: s.Row, most: max(s.Probe.Milliseconds(), 1)}
}

// State is where it stands.
func (b *Circuit) State() CircuitState { return b.state }

// Open says whether the partition is to wait: it is true while a probe is under way as well.
func (b *Circuit) Open() bool { return b.state != CircuitClosed }

// Attentive says whether it has to be told of successes: it is open, or a failure is among the last outcomes.
func (b *Circuit) Attentive() bool { return b.dirty || b.state != CircuitClosed }

// Cause is the processor and the class of the failures that have opened it last, and when that was.
func (b *Circuit) Cause() (node, class string, since int64) { return b.node, b.class, b.since }

// Openings is how often it has opened.
func (b *Circuit) Openings() int { return b.openings }

// Failed tells of a failure that Counts.
func (b *Circuit) Failed(node, class string, now int64) {
	switch b.state {
	case CircuitProbing:
		b.wait = min(2*b.wait, b.most)
		b.state, b.until = CircuitOpen, later(now, time.Duration(b.wait)*time.Millisecond)
	case CircuitClosed:
		if b.row < 1 {
			return
		}
		b.dirty = true
		b.recent.add(true)
		if b.count(node, class) >= b.row || b.recent.failures() >= circuitFailures {
			b.open(node, class, now)
		}
	}
}

func (b *Circuit) count(node, class string) int {
	i := slices.IndexFunc(b.rows, func(s streak) bool { return s.node == node && s.class == class })
	if i < 0 {
		if len(b.rows) == circuitRows {
			return 0
		}
		i = len(b.rows)
		b.rows = append(b.rows, streak{node: node, class: class})
	}
	b.rows[i].n++
	return b.rows[i].n
}

func (b *Circuit) open(node, class string, now int64) {
	b.state, b.node, b.class, b.since = CircuitOpen, node, class, now
	b.openings++
	b.wait = min(circuitFirst, b.most)
	b.until = later(now, time.Duration(b.wait)*time.Millisecond)
}

// Succeeded tells that a record was worked off, or the probe.
func (b *Circuit) Succeeded() {
	if b.dirty { // small enough to be inlined: it is called for each record
		b.succeeded()
	}
}

func (b *Circuit) succeeded() {
	switch b.state {
	case CircuitProbing:
		b.state = CircuitClosed
		b.recent = outcomes{}
	case CircuitClosed:
		b.recent.add(false)
	default:
		return
	}
	b.rows = b.rows[:0]
	b.dirty = b.recent.failures() > 0
}

// Waits is until when the partition waits, in ms: up to now where a probe may go, and where it is closed. While a probe is under way the
// time means nothing. A clock that was set back does not make the wait longer.
func (b *Circuit) Waits(now int64) (until int64) {
	if b.state != CircuitOpen {
		return now
	}
	b.until = min(b.until, later(now, time.Duration(b.wait)*time.Millisecond))
	return b.until
}

// Probe takes the next record as a probe, if it is open, the wait is over, and none is under way.
func (b *Circuit) Probe(now int64) bool {
	if b.state != CircuitOpen || b.Waits(now) > now {
		return false
	}
	b.state = CircuitProbing
	return true
}

// Release gives the probe back that has told nothing of the outage: its error was permanent, it was skipped or asked for a Snooze, or it was
// cancelled. The next record may be a probe at once.
func (b *Circuit) Release(now int64) {
	if b.state == CircuitProbing {
		b.state, b.until = CircuitOpen, now
	}
}

// outcomes are the last ones, a bit each, set for a failure. What has never been is taken for a success.
type outcomes struct{ hi, lo uint64 }

func (o *outcomes) add(failed bool) {
	o.hi = (o.hi<<1 | o.lo>>63) & (1<<(circuitOutcomes-64) - 1)
	o.lo <<= 1
	if failed {
		o.lo |= 1
	}
}

func (o *outcomes) failures() int { return bits.OnesCount64(o.hi) + bits.OnesCount64(o.lo) }
