package task

import (
	"fmt"
	"runtime/debug"

	"github.com/understudy-streams/understudy/retry"
)

// unit is the running unit, and what to go back to if it fails.
type unit struct {
	running    bool
	kind       unitKind
	retried    *retry.Item
	item       *Item  // of a worker, run here
	gap        *gap   // whose record it is
	void       bool   // it is undone in any case
	aside      bool   // the retry store takes part in it
	quiet      bool   // a commit that it asks for is not made for its sake: the task is being released
	node       string // that runs, unless one was entered
	entered    int    // 1 + index of the node that was entered last: a number, as this is noted several times for each record; 0 for none
	effects    effectsMark
	timers     int
	streamTime int64
	time       int64 // partition time of its input
}

// unitKind is what a unit is about, for when it fails.
type unitKind uint8

const (
	ownUnit    unitKind = iota // the runtime's own, or a callback: if it fails the task stops
	freshUnit                  // the record at the head of an input
	retryUnit                  // a record that was put aside
	replayUnit                 // the record at the head of a gap
	itemUnit                   // what a worker could not do
	timerUnit                  // a punctuation
	rowUnit                    // the emission of a row
)

// begin begins a unit: that of the record of an input, or with -1 one without a source record.
func (t *Task) begin(input int, offset int64) {
	t.env.input, t.env.offset = input, offset
	u := &t.unit
	u.running, u.void, u.aside, u.quiet, u.kind = true, false, false, false, ownUnit
	t.out.journal = t.out.journal[:0]
	u.entered = 0
	if u.node != "" {
		u.node = ""
	}
	t.out.active.mark(&u.effects)
	u.timers, u.streamTime = len(t.timers.all), t.streamTime
	if input >= 0 {
		u.kind, u.time = freshUnit, t.in.all[input].time
	}
	for _, s := range t.written {
		s.Begin()
	}
	if input < 0 {
		t.aside()
	}
	if t.cfg.Beat != nil {
		t.cfg.Beat(input, offset)
	}
}

// aside lets the retry store take part in the running unit. It does not from the beginning where that is about a record: next to none of those
// writes to it.
func (t *Task) aside() {
	if t.retries != nil && !t.unit.aside {
		t.unit.aside = true
		t.retries.Begin()
	}
}

// node names the node that runs.
func (t *Task) node() string {
	if n := t.unit.entered; n > 0 {
		return t.cfg.Spec.Nodes[n-1]
	}
	return t.unit.node
}

// end keeps the running unit, or undoes it if it failed, and then the task stops. It says which.
func (t *Task) end() bool {
	t.unit.running = false
	if t.env.failed != nil || t.unit.void {
		t.undo()
		return false
	}
	if t.watch.n > 0 {
		t.noteWrites()
	}
	for _, s := range t.written {
		s.Keep()
	}
	if t.unit.aside {
		t.retries.Keep()
	}
	if t.env.commit || len(t.env.callbacks) > 0 || len(t.env.drops) > 0 {
		t.settle()
	}
	if t.out.active.Bytes >= effectsTarget {
		t.out.cut()
	}
	return true
}

// settle carries out what a kept unit asked for.
func (t *Task) settle() {
	e := &t.env
	if !t.unit.quiet {
		t.commit.wanted = t.commit.wanted || e.commit || len(e.callbacks) > 0
		t.commit.blocked = t.commit.blocked || e.commit
	}
	e.commit = false
	if len(e.callbacks) > 0 {
		t.commit.callbacks = append(t.commit.callbacks, e.callbacks...)
		clear(e.callbacks)
		e.callbacks = e.callbacks[:0]
	}
	for _, d := range e.drops {
		t.leaveOut(d.reason, d.n)
	}
	e.drops = e.drops[:0]
}

// undo takes back everything that the failed unit did. The time it was taken at is taken back too: after a restart the record is taken
// again, and must set off what it sets off.
func (t *Task) undo() {
	e := &t.env
	for _, s := range t.written {
		s.Rollback()
	}
	if t.unit.aside {
		t.retries.Rollback()
	}
	t.out.undo(&t.unit.effects)
	t.timers.undo(t.unit.timers)
	t.streamTime = t.unit.streamTime
	if e.input >= 0 {
		t.in.all[e.input].time = t.unit.time
	}
	if !t.unit.void {
		t.commit.refused = append(t.commit.refused, e.callbacks...)
	}
	clear(e.callbacks)
	e.callbacks, e.drops, e.commit = e.callbacks[:0], e.drops[:0], false
	if e.failed != nil {
		t.stats.Failed++
		t.failed(e.failed)
		e.failed = nil
	}
}

// stop makes the task take nothing more. The first reason wins.
func (t *Task) stop(err error) {
	if t.err == nil {
		t.err = err
	}
}

// recovered is deferred once per turn. It turns a panic of the user's code into the failure of the running unit; a panic outside of a unit
// is ours and goes on.
func (t *Task) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if !t.unit.running {
		panic(p)
	}
	if t.env.failed == nil {
		t.env.failed = t.env.panicked(t.node(), p)
	}
	t.end()
}

func (e *Env) panicked(node string, p any) *Error {
	err, ok := p.(error)
	if !ok {
		err = fmt.Errorf("%v", p)
	}
	topic, partition, offset := e.Source()
	return &Error{
		Task: e.t.cfg.ID, Topic: topic, Partition: partition, Offset: offset, Node: node, Kind: KindPanic, Err: err, Stack: debug.Stack(),
	}
}
