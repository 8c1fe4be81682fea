package group

import (
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// replica is a copy of a task's state at a process.
type replica struct {
	kind  assignor.Kind
	ready bool
	lag   assignor.Lag
}

const (
	cold      = assignor.Lag(1_000_000) // of a copy that has just begun
	coalesced = 2 * time.Second         // a member waits so long for its other learners before it says that one is ready
)

func sortedIDs[V any](set map[task.ID]V) []task.ID {
	return slices.SortedFunc(maps.Keys(set), task.ID.Compare)
}

// take brings the process in line with an assignment.
func (p *process) take(a Assigned) {
	was := maps.Clone(p.run)
	maps.Copy(was, p.parked)
	p.run, p.parked = map[task.ID]bool{}, map[task.ID]bool{}
	for _, id := range a.Tasks {
		p.run[id] = true
		delete(p.copies, id)
		delete(was, id)
	}
	for id := range was { // given away: what it leaves behind is nearly up to date
		if p.w.stateful(id) {
			p.copies[id] = &replica{kind: assignor.OnDisk, lag: 5}
		}
	}
	wanted := map[task.ID]assignor.Kind{}
	for _, s := range a.Standbys {
		wanted[s.Task] = assignor.Standby
	}
	for _, in := range a.Learners {
		if c := p.copies[in.Task]; !in.Instant {
			wanted[in.Task] = assignor.Learner
		} else if c != nil { // it goes on following until it is taken over
			wanted[in.Task] = c.kind
		}
	}
	for id, c := range p.copies {
		if wanted[id] == 0 {
			c.kind, c.ready = assignor.OnDisk, false
		}
	}
	for _, id := range sortedIDs(wanted) {
		p.follow(id, wanted[id])
	}
}

// follow makes, or goes on with, a copy that is fed.
func (p *process) follow(id task.ID, kind assignor.Kind) {
	c := p.copies[id]
	if c != nil && c.kind == kind {
		return
	}
	if c == nil {
		c = &replica{lag: cold}
		p.copies[id] = c
	}
	fed := c.kind == assignor.Standby || c.kind == assignor.Learner
	c.kind = kind
	if fed && c.lag > 0 {
		return // it catches up already
	}
	takes := time.Duration(1+p.w.rng.IntN(4000)) * time.Millisecond
	if p.w.learns != nil {
		takes = p.w.learns(p, id)
	}
	if takes < 0 {
		return // the test says when
	}
	p.w.at(takes, func() { p.caughtUp(id, c) })
}

// caughtUp: the copy has reached the end. A learner's member says so when all of its learners have, or after a while.
func (p *process) caughtUp(id task.ID, c *replica) {
	if !p.alive || p.copies[id] != c || c.kind != assignor.Learner && c.kind != assignor.Standby {
		return
	}
	c.lag = 0
	if c.kind != assignor.Learner {
		return
	}
	c.ready = true
	p.w.note("%s has learned %s", p.name, id)
	say := func() {
		if p.alive && p.copies[id] == c && c.kind == assignor.Learner && c.ready {
			p.w.batches++
			p.step(Rejoin{Reason: "learned " + id.String()})
		}
	}
	for _, o := range p.copies {
		if o.kind == assignor.Learner && !o.ready {
			p.w.at(coalesced, say)
			return
		}
	}
	say()
}

func (p *process) declaredCopies() (out []assignor.Replica) {
	for _, id := range sortedIDs(p.copies) {
		c := p.copies[id]
		out = append(out, assignor.Replica{Task: id, Kind: c.kind, Lag: c.lag, Ready: c.kind == assignor.Learner && c.ready})
	}
	return out
}

func (w *world) stateful(id task.ID) bool {
	for _, s := range w.topo.Subtopologies {
		if s.ID == id.Subtopology {
			return s.Stateful
		}
	}
	return false
}

// knowsReady is a readiness board that always works.
func (w *world) knowsReady(k assignor.Mark) bool {
	for _, p := range w.living() {
		if c := p.copies[k.Task]; p.member == k.Receiver && c != nil && c.kind == assignor.Learner && c.ready {
			return true
		}
	}
	return false
}
