package consume

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// commits are those that have no outcome yet, in the order in which they were asked for. One request is on the way at a time; it takes all
// that wait, of each partition the last.
type commits struct {
	queue     []*commit
	onWay     uint64
	save      bool // what is on the way waits to be taken by TakeSave
	notBefore time.Time
	tries     int
	due       bool // what is done is to be committed by itself at autoAt
	autoAt    time.Time

	also    map[task.TopicPartition]int64 // saved, and to be committed to Kafka as well
	alsoWay uint64
}

type commit struct {
	id    uint64 // 0: the consumer's own
	parts []commitPart
	errs  []error
}

type commitPart struct {
	tp     task.TopicPartition
	life   uint64
	offset int64
	said   retry.Metadata // beside the offset, where there is recovery
	gap    *gap           // that it tells of
	sent   uint64         // the request that it is part of
	done   bool
}

// has says whether there is a commit of a part without an outcome.
func (c *commits) has(p *part) bool {
	for _, q := range c.queue {
		for _, x := range q.parts {
			if x.tp == p.tp && x.life == p.life && !x.done {
				return true
			}
		}
	}
	return false
}

// commit queues what the user asks for.
func (m *Machine) commit(ev Commit) {
	c := &commit{id: ev.ID}
	switch {
	case m.ended || m.closing && m.member.left:
		c.errs = append(c.errs, m.refusal(task.TopicPartition{}, "the consumer is closed", nil))
	case m.cfg.Group.Group == "" && !m.cfg.Own:
		c.errs = append(c.errs, errors.New("commit refused: the consumer has no group: set ConsumerConfig.Group, or Offsets"))
	case ev.Offsets == nil:
		for _, p := range m.order {
			if p.phase == released {
				continue
			}
			main, replayed := p.taken()
			if x, any := m.commitTaken(p, main, replayed); any {
				c.parts = append(c.parts, x)
			}
		}
	default:
		for _, tp := range slices.SortedFunc(maps.Keys(ev.Replayed), task.TopicPartition.Compare) {
			m.commitOf(c, tp, ev.Replayed[tp], ev.Lives, true)
		}
		for _, tp := range slices.SortedFunc(maps.Keys(ev.Offsets), task.TopicPartition.Compare) {
			m.commitOf(c, tp, ev.Offsets[tp], ev.Lives, false)
		}
	}
	m.commits.queue = append(m.commits.queue, c)
	m.flushCommits()
	m.resolve()
}

func (m *Machine) commitOf(c *commit, tp task.TopicPartition, offset int64, lives map[task.TopicPartition]uint64, replayed bool) {
	p := m.parts[tp]
	life, of := lives[tp]
	switch {
	case p == nil || p.phase == released:
		c.errs = append(c.errs, m.refusal(tp, "the partition is not this consumer's (any more)", nil))
	case of && life != p.life:
		c.errs = append(c.errs, m.refusal(tp, "the record is of an earlier assignment of the partition, which may have been another member's since", nil))
	case offset < 0:
		c.errs = append(c.errs, m.refusal(tp, fmt.Sprintf("offset %d is negative", offset), nil))
	case replayed && p.gap == nil:
		c.errs = append(c.errs, m.refusal(tp, "the record was left behind by a crash, and a Seek has ended what was to be done about those", nil))
	case p.openGap() != nil && offset <= p.gap.hi:
		c.parts = append(c.parts, m.commitReplayed(p, offset))
	case !replayed: // what is left behind is done otherwise
		c.parts = append(c.parts, m.commitAt(p, offset))
	}
}

func (m *Machine) refusal(tp task.TopicPartition, reason string, err error) error {
	return &CommitRefusedError{Partition: tp, Generation: m.member.generation, Reason: reason, Err: err}
}

// onPolled: what earlier Polls have returned is done.
func (m *Machine) onPolled() {
	m.begins.refused = false
	for _, p := range m.order {
		p.processing = false
		if p.moved && p.position >= 0 {
			p.done = p.position
		}
		if p.gap != nil {
			p.gap.done = p.gap.position
		}
	}
	m.commits.due = m.cfg.CommitInterval > 0
}

// commitWhenDue commits by itself what is done, also while a Poll waits for records for long.
func (m *Machine) commitWhenDue() {
	c := &m.commits
	if !c.due || m.closing || !slices.ContainsFunc(m.order, (*part).hasDone) || !m.after(c.autoAt) {
		return
	}
	c.due, c.autoAt = false, m.now.Add(m.cfg.CommitInterval)
	for _, p := range m.order {
		if p.phase == held {
			m.commitDone(p)
		}
	}
}

// hasDone says that more of a part is done than is committed.
func (p *part) hasDone() bool {
	g := p.openGap()
	if g == nil {
		return p.done >= 0 && p.done != p.kept
	}
	return p.done >= 0 && p.done != p.said.Main || g.nextOpen(g.done) != p.kept
}

// commitDone commits what is done of a part.
func (m *Machine) commitDone(p *part) {
	if !p.hasDone() {
		return
	}
	replayed := int64(-1)
	if p.gap != nil {
		replayed = p.gap.done
	}
	if x, any := m.commitTaken(p, p.done, replayed); any {
		m.commitInside(x)
	}
}

// commitInside queues a commit that nobody waits for.
func (m *Machine) commitInside(x commitPart) {
	if m.cfg.Group.Group == "" && !m.cfg.Own {
		return
	}
	var c *commit
	if last := len(m.commits.queue) - 1; last >= 0 && m.commits.queue[last].id == 0 {
		c = m.commits.queue[last]
	} else {
		c = &commit{}
		m.commits.queue = append(m.commits.queue, c)
	}
	if i := slices.IndexFunc(c.parts, func(y commitPart) bool { return x.tp == y.tp && x.life == y.life && y.sent == 0 && !y.done }); i >= 0 {
		c.parts[i] = x
		return
	}
	c.parts = append(c.parts, x)
}

// flushCommits sends what waits.
func (m *Machine) flushCommits() {
	m.flushAlso()
	c := &m.commits
	if c.onWay != 0 || len(c.queue) == 0 || !m.waits() || !m.after(c.notBefore) {
		return
	}
	if m.cfg.Own {
		c.onWay, c.save = m.request(), true
		m.send(c.onWay)
		m.do(Ready{})
		return
	}
	addr, memberID, ok := m.committer()
	if !ok {
		return
	}
	c.onWay = m.request()
	latest := m.send(c.onWay)
	a := CommitOffsets{Request: c.onWay, Coordinator: addr, MemberID: memberID, Generation: m.member.generation}
	for _, tp := range slices.SortedFunc(maps.Keys(latest), task.TopicPartition.Compare) {
		x := latest[tp]
		o := task.InputOffset{TopicPartition: tp, Offset: x.offset}
		if m.cfg.RecoverAbove > 0 {
			o.Metadata, _ = x.said.Fit(x.offset)
		}
		a.Offsets = append(a.Offsets, o)
	}
	m.do(a)
}

// committer is what a commit needs of the group.
func (m *Machine) committer() (addr, memberID string, ok bool) {
	if !m.hasCoordinator() {
		return "", "", false
	}
	if m.cfg.Manual {
		return m.member.addr, "", true
	}
	id, generation, addr := m.member.machine.Membership()
	return addr, id, id != "" && generation >= 0 && generation == m.member.generation
}

// waits says whether there is something to send.
func (m *Machine) waits() bool {
	for _, q := range m.commits.queue {
		for _, x := range q.parts {
			if !x.done && x.sent == 0 {
				return true
			}
		}
	}
	return false
}

// send makes all that waits part of a request, and returns of each partition the last.
func (m *Machine) send(request uint64) map[task.TopicPartition]*commitPart {
	latest := map[task.TopicPartition]*commitPart{}
	for _, q := range m.commits.queue {
		for i := range q.parts {
			if x := &q.parts[i]; !x.done && x.sent == 0 {
				x.sent = request
				latest[x.tp] = x
			}
		}
	}
	return latest
}

// TakeSave takes what the user's store has to save now, nil if there is nothing. Whoever takes it answers with Saved.
func (m *Machine) TakeSave() *Save {
	c := &m.commits
	if !c.save {
		return nil
	}
	c.save = false
	s := &Save{Request: c.onWay, Generation: m.member.generation, Offsets: map[task.TopicPartition]int64{}}
	m.outcome(c.onWay, func(_ *commit, x *commitPart) { s.Offsets[x.tp] = x.offset })
	return s
}

func (m *Machine) onSaved(ev Saved) {
	c := &m.commits
	if ev.Request != c.onWay || ev.Request == 0 {
		return
	}
	c.onWay = 0
	m.outcome(ev.Request, func(q *commit, x *commitPart) {
		x.done = true
		if ev.Err != nil {
			err := m.refusal(x.tp, "the offset store has failed: "+ev.Err.Error(), ev.Err)
			q.errs = append(q.errs, err)
			return
		}
		m.keep(x)
		if m.cfg.AlsoKafka {
			if c.also == nil {
				c.also = map[task.TopicPartition]int64{}
			}
			c.also[x.tp] = x.offset
		}
	})
	m.resolve()
}

// flushAlso commits to Kafka what the user's store has. Nobody waits for it, and what fails is covered by the next one.
func (m *Machine) flushAlso() {
	c := &m.commits
	if len(c.also) == 0 || c.alsoWay != 0 {
		return
	}
	addr, memberID, ok := m.committer()
	if !ok {
		return
	}
	a := CommitOffsets{Coordinator: addr, MemberID: memberID, Generation: m.member.generation}
	for _, tp := range slices.SortedFunc(maps.Keys(c.also), task.TopicPartition.Compare) {
		if m.parts[tp] != nil {
			a.Offsets = append(a.Offsets, task.InputOffset{TopicPartition: tp, Offset: c.also[tp]})
		}
	}
	clear(c.also)
	if len(a.Offsets) > 0 {
		c.alsoWay = m.request()
		a.Request = c.alsoWay
		m.do(a)
	}
}

// outcome visits what was part of a request.
func (m *Machine) outcome(request uint64, f func(*commit, *commitPart)) {
	for _, q := range m.commits.queue {
		for i := range q.parts {
			if x := &q.parts[i]; !x.done && x.sent == request {
				f(q, x)
			}
		}
	}
}

func (m *Machine) onCommitted(ev OffsetsCommitted) {
	c := &m.commits
	if ev.Request == c.alsoWay && ev.Request != 0 {
		c.alsoWay = 0
		if ev.Err != nil {
			m.do(Note{What: "commit to Kafka of what was saved", Err: ev.Err})
		}
		return
	}
	if ev.Request != c.onWay || ev.Request == 0 {
		return
	}
	c.onWay = 0
	var again error
	m.outcome(ev.Request, func(q *commit, x *commitPart) {
		code, answered := ev.Codes[x.tp]
		switch {
		case answered && code == kcode.None:
			x.done = true
			m.keep(x)
		case !answered:
			x.sent, again = 0, firstError(ev.Err, kcode.Unknown)
		case m.passing(code):
			x.sent, again = 0, code
			m.lostCoordinator(nil, code)
		default:
			x.done = true
			err := m.refusal(x.tp, m.whyRefused(code), code)
			q.errs = append(q.errs, err)
			if p := m.parts[x.tp]; p != nil && x.gap != nil && x.gap == p.gap && !p.gap.sealed { // what is new waits for it
				m.disconnect(p)
				p.fault = err
			}
		}
	})
	if ev.Err != nil {
		m.lostCoordinator(ev.Err, kcode.None)
	}
	c.tries = m.again(again != nil, c.tries, &c.notBefore)
	if again != nil {
		m.do(Note{What: "commit", Err: again})
		if c.tries >= visibleFrom {
			m.tellRetry("commit", again)
		}
	}
	m.resolve()
}

// passing says that a commit is made again: under the next generation, at the next coordinator, or a little later. That of a partition which is
// not here any more then is refused.
func (m *Machine) passing(code kcode.Code) bool {
	switch code {
	case kcode.NotCoordinator, kcode.CoordinatorNotAvailable, kcode.CoordinatorLoadInProgress, kcode.RequestTimedOut, kcode.NotEnoughReplicas,
		kcode.NotEnoughReplicasAppended, kcode.NetworkException, kcode.UnknownTopicOrPartition, kcode.UnstableOffsetCommit:
		return true
	}
	return ofMembers(code) && !m.cfg.Manual
}

// ofMembers says that a group has members, and takes commits of this generation of theirs only.
func ofMembers(code kcode.Code) bool {
	return code == kcode.RebalanceInProgress || code == kcode.IllegalGeneration || code == kcode.UnknownMemberID
}

func (m *Machine) whyRefused(code kcode.Code) string {
	if m.cfg.Manual && ofMembers(code) {
		return fmt.Sprintf("group %s has members that share its topics, and takes no commits from outside: stop them, or use another group (%v)",
			m.cfg.Group.Group, code)
	}
	return code.Error()
}

// keep notes what is committed.
func (m *Machine) keep(x *commitPart) {
	if p := m.parts[x.tp]; p != nil && p.life == x.life {
		p.kept = x.offset
		if p.covered(x) {
			p.processing = false // the user says so
		}
		if m.cfg.RecoverAbove > 0 {
			m.keepSaid(p, x)
		}
	}
}

// refuse gives up the commits of a part whose life is over. One that is on the way may have been carried out.
func (m *Machine) refuse(p *part, reason string) {
	m.refuseThose(func(x *commitPart) bool { return x.tp == p.tp && x.life == p.life }, reason)
}

// refuseAll gives up all commits.
func (m *Machine) refuseAll(reason string) {
	m.refuseThose(func(*commitPart) bool { return true }, reason)
}

func (m *Machine) refuseThose(which func(*commitPart) bool, reason string) {
	for _, q := range m.commits.queue {
		for i := range q.parts {
			if x := &q.parts[i]; !x.done && which(x) {
				x.done = true
				q.errs = append(q.errs, m.refusal(x.tp, reason, nil))
			}
		}
	}
	m.dropSave()
	m.resolve()
}

// dropSave gives up a save that nobody has taken yet and that has nothing to save any more, so that what comes after it goes on.
func (m *Machine) dropSave() {
	c := &m.commits
	if !c.save {
		return
	}
	left := false
	m.outcome(c.onWay, func(*commit, *commitPart) { left = true })
	if !left {
		c.onWay, c.save = 0, false
	}
}

// closePatience is how long an end waits for commits that are not taken. A lease may be over earlier.
const closePatience = 15 * time.Second

// giveUpCommits lets the consumer end, also with commits that brokers never take: the topic was deleted, or no broker is there.
func (m *Machine) giveUpCommits() {
	c := &m.commits
	if !m.closing || len(c.queue)+len(c.also) == 0 && c.alsoWay == 0 || !m.after(m.closeBy) {
		return
	}
	clear(c.also)
	c.onWay, c.save, c.alsoWay = 0, false, 0
	m.refuseAll("the consumer was closed, and nobody has taken the commit for " + closePatience.String())
}

// resolve answers the commits that have their outcome, in their order.
func (m *Machine) resolve() {
	c := &m.commits
	n := 0
	for _, q := range c.queue {
		if slices.ContainsFunc(q.parts, func(x commitPart) bool { return !x.done }) {
			break
		}
		n++
		err := errors.Join(q.errs...)
		switch {
		case q.id != 0:
			m.do(Answer{ID: q.id, Err: err})
		case err != nil:
			m.insideFailed(q.errs)
		}
	}
	c.queue = slices.Delete(c.queue, 0, n)
}

// insideFailed reports what a commit of the consumer's own could not do: partitions that are gone are no fault, all else is one.
func (m *Machine) insideFailed(errs []error) {
	for _, err := range errs {
		var refused *CommitRefusedError
		if errors.As(err, &refused) && refused.Err == nil {
			m.do(Note{What: "commit", Err: err})
			continue
		}
		m.fault(err)
	}
}
