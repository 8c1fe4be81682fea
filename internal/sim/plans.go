package sim

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
)

// plan is a change of who is in the group, as somebody means it, or a fault that strikes in the middle of one.
type plan struct {
	name string
	run  func(w *world, done func())
	// kills: a process dies in it, so somebody may have to restore what only that one had. closes: one ends that hands nothing over, so the
	// same is true unless there are standbys. version: the program changes, so what others have learned is of no use.
	kills, closes, version bool
}

var plans = []plan{
	{name: "one joins", run: func(w *world, done func()) { w.grow(1, 0); done() }},
	{name: "three join", run: func(w *world, done func()) { w.grow(3, 0); done() }},
	{name: "three join one after another", run: func(w *world, done func()) { w.grow(3, w.UpTo(2*time.Second)); done() }},
	{name: "one is drained", run: (*world).drainOne},
	{name: "one leaves for good", closes: true, run: (*world).shrink},
	{name: "all are restarted", closes: true, run: func(w *world, done func()) { w.roll(done) }},
	{name: "all get a new version", closes: true, version: true, run: func(w *world, done func()) { w.version++; w.roll(done) }},
	{name: "the leader dies", kills: true, run: func(w *world, done func()) { w.kill(w.leads, KilledLeader); done() }},
	{name: "a learner dies", kills: true, run: func(w *world, done func()) { w.amid(func() { w.kill(w.learns, KilledLearner); done() }, done) }},
	{name: "an owner dies while its task is learned", kills: true, run: func(w *world, done func()) {
		w.amid(func() { w.kill(w.isLearnedFrom, KilledOwner); done() }, done)
	}},
	{name: "the leader dies in the middle of a move", kills: true, run: func(w *world, done func()) {
		w.amid(func() { w.kill(w.leads, KilledLeader); done() }, done)
	}},
	{name: "a learner reads slowly", run: func(w *world, done func()) { w.hinder(false); w.grow(1, 0); done() }},
	{name: "a learner does not get anything to read", run: func(w *world, done func()) { w.hinder(true); w.grow(1, 0); done() }},
	{name: "a standby loses its directory", kills: true, run: func(w *world, done func()) { w.loseStandby(); done() }},
	{name: "the coordinator moves in the middle of a move", run: func(w *world, done func()) {
		w.amid(func() { w.moveCoordinator(); w.saw(MovedAmid); done() }, done)
	}},
}

// play carries a plan out.
func (w *world) play(p plan) {
	if w.healed {
		return
	}
	w.fault("plan: %s", p.name)
	w.plans++
	over := false
	p.run(w, func() {
		if !over {
			over = true
			w.plans--
		}
	})
}

// planned begins a run in which nothing happens but one plan, once the group has settled. It reports whether the run is one.
func (w *world) planned() bool {
	if !w.mood.planned {
		return false
	}
	w.After(4*time.Second+w.UpTo(4*time.Second), nil, w.beginPlan)
	return true
}

func (w *world) beginPlan() {
	if !w.settled() {
		if !w.healed {
			w.After(50*time.Millisecond, nil, w.beginPlan)
		}
		return
	}
	w.oracle.rounds.begin(&plans[w.mood.plan])
	w.play(plans[w.mood.plan])
}

// settled says that every process that belongs to the group is in it, runs what it shall run, and has learned what it shall have.
func (w *world) settled() bool {
	settled := w.stable()
	if settled {
		w.misplaced(func(string, ...any) { settled = false })
	}
	return settled
}

// stable says that every process that belongs to the group is in it, and runs what it shall run.
func (w *world) stable() bool {
	g := w.Broker.Group(groupName)
	if g.State != modelbroker.Stable || len(g.Members) != w.size() {
		return false
	}
	for _, h := range w.hosts {
		if h.belongs() && (h.p == nil || h.p.Engine.State() != engine.Running || h.p.plan.generation != g.Generation) || !h.belongs() && h.p != nil {
			return false
		}
	}
	return true
}

// size is how many processes belong to the group.
func (w *world) size() (n int) {
	for _, h := range w.hosts {
		if h.belongs() {
			n++
		}
	}
	return n
}

// grow starts processes on machines that have none, some time apart.
func (w *world) grow(n int, apart time.Duration) {
	wait := time.Duration(0)
	for _, h := range w.hosts {
		if n == 0 {
			return
		}
		if h.p != nil || h.wanted || h.started > 0 && !h.retired {
			continue
		}
		n--
		h.wanted, h.retired = true, false
		w.saw(Grew)
		w.After(wait, nil, h.start)
		wait += apart
	}
}

// chosen is a process of the group, one of those that a function wants if there are any and it is given; nil if the group would become empty.
func (w *world) chosen(wants func(*process) bool) *process {
	var all []*process
	for _, h := range w.hosts {
		if h.p != nil && h.belongs() && (wants == nil || wants(h.p)) {
			all = append(all, h.p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.Rand.IntN(len(all))]
}

func (w *world) retire() *process {
	p := w.chosen(nil)
	if p == nil || w.size() < 2 {
		return nil
	}
	p.host.retired, p.host.wanted, p.host.wipes = true, false, false
	return p
}

func (w *world) drainOne(done func()) {
	if p := w.retire(); p != nil {
		w.fault("%s is drained", p.name)
		w.saw(Drained)
		p.shutting = true
		p.Tell(engine.Drain{})
	}
	done()
}

func (w *world) shrink(done func()) {
	if p := w.retire(); p != nil {
		w.fault("%s leaves for good", p.name)
		w.saw(Shrank)
		p.shut(0)
	}
	done()
}

// roll restarts all processes, one after another, each when the group has settled.
func (w *world) roll(done func()) {
	var all []*host
	for _, h := range w.hosts {
		if h.belongs() {
			all = append(all, h)
		}
	}
	w.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	w.rollNext(all, done)
}

func (w *world) rollNext(rest []*host, done func()) {
	if len(rest) == 0 || w.ending {
		done()
		return
	}
	h := rest[0]
	if h.p == nil || !h.belongs() || h.p.Engine.State() == engine.Closing {
		if !h.retired && h.version < w.version { // it comes back with the new one
			w.After(100*time.Millisecond, nil, func() { w.rollNext(rest, done) })
			return
		}
		w.rollNext(rest[1:], done)
		return
	}
	w.fault("%s is restarted", h.p.name)
	w.saw(Rolled)
	if h.version < w.version {
		w.saw(Upgraded)
	}
	h.wanted, h.wipes = false, false
	h.p.shut(0)
	w.After(w.UpTo(time.Second), nil, h.comeBack)
	w.After(time.Second, nil, func() { w.awaitRoll(rest[1:], w.Now.Add(15*time.Second), done) })
}

func (w *world) awaitRoll(rest []*host, until time.Time, done func()) {
	settled := w.settled() || w.version > 0 && w.stable() // old ones cannot keep copies of what new ones have
	if settled || w.ending || !w.mood.planned && w.Now.After(until) {
		w.rollNext(rest, done)
		return
	}
	w.After(50*time.Millisecond, nil, func() { w.awaitRoll(rest, until, done) })
}

// amid makes the group grow, and does something while a task is being learned or handed over; nothing if that does not come.
func (w *world) amid(do, or func()) {
	w.grow(1, 0)
	w.awaitMove(w.Now.Add(6*time.Second), do, or)
}

func (w *world) awaitMove(until time.Time, do, or func()) {
	switch {
	case w.healed || w.Now.After(until):
		or()
	case w.chosen(w.learns) != nil:
		w.After(w.UpTo(time.Second), nil, do)
	default:
		w.After(10*time.Millisecond, nil, func() { w.awaitMove(until, do, or) })
	}
}

func (w *world) leads(p *process) bool {
	return w.oracle.members[w.Broker.Group(groupName).Leader] == p
}

func (w *world) learns(p *process) bool { return p.has(engine.Learner) }

func (w *world) isLearnedFrom(p *process) bool { return len(p.plan.Marks) > 0 }

// has says that a process holds a task in a role.
func (p *process) has(role engine.Role) bool {
	for _, t := range p.Engine.Tasks() {
		if t.Role == role {
			return true
		}
	}
	return false
}

func (w *world) kill(whom func(*process) bool, k Kind) {
	p := w.chosen(whom)
	if p == nil {
		return
	}
	w.fault("%s dies: %v", p.name, k)
	w.saw(k)
	w.oracle.rounds.died(p)
	h := p.host
	h.crash()
	w.After(w.UpTo(2*session), nil, h.start)
}

func (w *world) loseStandby() {
	p := w.chosen(func(p *process) bool { return p.has(engine.Standby) })
	if p == nil {
		return
	}
	w.fault("%s dies, and its directory with its standbys is lost", p.name)
	w.saw(LostStandby)
	w.oracle.rounds.died(p)
	h := p.host
	h.crash()
	h.wipe()
	w.After(w.UpTo(2*session), nil, h.start)
}

// hinder makes what processes to come read of changelogs come slowly, or not at all for a while.
func (w *world) hinder(stuck bool) {
	until := w.Now.Add(3*time.Second + w.UpTo(4*time.Second))
	for _, h := range w.hosts {
		if h.p != nil || h.wanted {
			continue
		}
		if stuck {
			h.stuck = until
		} else {
			h.slow = until
		}
	}
}

// HoldsRead is how long the next read of a changelog is held up.
func (p *process) HoldsRead() time.Duration {
	h := p.host
	switch w := h.w; {
	case w.Now.Before(h.stuck):
		w.saw(StuckReads)
		return h.stuck.Sub(w.Now)
	case w.Now.Before(h.slow):
		w.saw(SlowReads)
		return w.UpTo(time.Second)
	}
	return 0
}
