package consume

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// membership is the member of the group, and in manual mode the coordinator at which offsets are committed.
type membership struct {
	machine    *group.Machine
	state      group.State
	reason     string
	generation int32 // of the assignment, -1: none
	failures   int
	left       bool

	prepare     *handover
	revocations uint64
	late        []task.ID
	free        string // why another round is to be asked for

	addr    string // the coordinator's
	finding uint64
	findAt  time.Time
	tries   int
}

// handover is a join that waits for partitions to be released.
type handover struct {
	join  uint64
	until time.Time
}

func (m *Machine) onMember(ev group.Event) {
	if m.cfg.Manual {
		m.onCoordinator(ev)
		return
	}
	m.member.reason = because(ev, m.member.reason)
	if found, is := ev.(group.CoordinatorFound); is {
		m.trouble("the group's coordinator", found.Err)
	}
	m.stepMember(ev)
}

// because says why an event may change the member's state.
func because(ev group.Event, before string) string {
	say := func(what string, err error, code kcode.Code) string {
		switch {
		case err != nil:
			return fmt.Sprintf("%s was not answered: %v", what, err)
		case code == kcode.RebalanceInProgress:
			return group.OthersAsked
		case code != kcode.None:
			return fmt.Sprintf("%s was answered: %v", what, code)
		}
		return before
	}
	switch ev := ev.(type) {
	case group.CoordinatorFound:
		return say("the request for the coordinator", ev.Err, ev.Code)
	case group.JoinDone:
		if ev.Code == kcode.MemberIDRequired {
			return before
		}
		return say("the join", ev.Err, ev.Code)
	case group.SyncDone:
		return say("the request for the plan", ev.Err, ev.Code)
	case group.HeartbeatDone:
		return say("a heartbeat", ev.Err, ev.Code)
	}
	return before
}

// onCoordinator takes the answer in where there is no membership.
func (m *Machine) onCoordinator(ev group.Event) {
	found, is := ev.(group.CoordinatorFound)
	if !is || found.Req != m.member.finding {
		return
	}
	m.member.finding = 0
	if found.Err == nil && found.Code == kcode.None {
		m.member.addr, m.member.tries, m.member.findAt = found.Addr, 0, time.Time{}
		m.trouble("the group's coordinator", nil)
		return
	}
	m.member.tries = m.again(true, m.member.tries, &m.member.findAt)
	if found.Code == kcode.GroupAuthorizationFailed || found.Code == kcode.InvalidGroupID {
		m.fail(refusedGroup(m.cfg.Group.Group, found.Code))
	}
	m.trouble("the group's coordinator", firstError(found.Err, found.Code))
}

func refusedGroup(name string, code kcode.Code) error {
	return fmt.Errorf("group %s: %w: grant this user READ on the group, or use another name", name, code)
}

// stepMember tells the member something and deals with what it decides.
func (m *Machine) stepMember(ev group.Event) {
	if m.cfg.Manual || m.ended {
		return
	}
	for _, a := range slices.Clone(m.member.machine.Step(m.now, ev)) {
		switch a := a.(type) {
		case group.Prepare:
			m.member.reason = a.Reason
			m.beginHandover(a)
		case group.Assigned:
			m.onAssigned(a)
		case group.Lost:
			m.member.reason = a.Reason
			m.onLost(a.Reason)
		case group.Fatal:
			err := a.Err
			if errors.Is(err, group.ErrTopologyConflict) {
				err = fmt.Errorf("group %s is in use by an application that reads the same topics: stop it, or use another group", m.cfg.Group.Group)
			}
			m.onLost(err.Error())
			m.fail(err)
			m.rest(err.Error())
		case group.Left:
			m.rest(m.member.reason)
		case group.Wake:
			m.wakeAt(a.At)
		default:
			m.do(MemberAction{Action: a})
		}
	}
	m.changed(m.member.machine.State(), m.member.reason)
	m.failed(m.member.machine.Failures())
}

// changed tells of a new state of the member.
func (m *Machine) changed(to group.State, reason string) {
	from := m.member.state
	if from == to || m.ended {
		return
	}
	m.member.state = to
	m.tell(TellState{Change{From: from, To: to, Reason: reason, Generation: m.member.generation, Failures: m.member.failures, At: m.now}})
}

// visibleFrom is how many tries in a row may fail before each is told.
const visibleFrom = 3

// failed tells of tries that fail in a row.
func (m *Machine) failed(n int) {
	before := m.member.failures
	m.member.failures = n
	if n < visibleFrom || n <= before || m.ended {
		return
	}
	c := Change{From: m.member.state, To: m.member.state, Reason: m.member.reason, Generation: m.member.generation, Failures: n, At: m.now}
	m.do(Note{What: fmt.Sprintf("the member is %v and has failed %d times in a row, trying again: %s", c.To, n, c.Reason)})
	if last := len(m.tells) - 1; last >= 0 { // where nobody polls the last one says it
		if t, is := m.tells[last].(TellState); is && t.Change.From == t.Change.To {
			m.tells[last] = TellState{c}
			return
		}
	}
	m.tell(TellState{c})
}

// State is where the member is.
func (m *Machine) State() group.State { return m.member.state }

// Generation is the one under which there are partitions here, -1 if there are none.
func (m *Machine) Generation() int32 { return m.member.generation }

// onAssigned brings the partitions in line with an assignment.
func (m *Machine) onAssigned(a group.Assigned) {
	m.member.reason, m.member.generation, m.member.prepare = a.Reason, a.Generation, nil
	m.commits.notBefore = time.Time{}
	m.planFor(a.Others)
	if m.closing {
		return // everything is being handed over already
	}
	mine := map[task.ID]bool{}
	for _, id := range a.Tasks {
		mine[id] = true
	}
	m.takeAway(mine)
	var begun []task.TopicPartition
	for _, id := range a.Tasks {
		if tp, anew := m.give(id, a); anew {
			begun = append(begun, tp)
		}
	}
	m.sort()
	m.keepLate()
	if len(begun) > 0 {
		slices.SortFunc(begun, task.TopicPartition.Compare)
		m.tell(TellAssigned{Generation: a.Generation, Parts: begun})
	}
	for _, c := range a.Counts {
		if n, has := m.topics.counts[m.topics.names[c.Subtopology]]; has && c.Partitions > n {
			m.routing.dueAt = m.now
		}
	}
}

// keepLate keeps in mind what was released too late for this round, and asks for the next one if it is free by now.
func (m *Machine) keepLate() {
	free := ""
	m.member.late = slices.DeleteFunc(m.member.late, func(id task.ID) bool {
		i := slices.IndexFunc(m.order, func(p *part) bool { return p.id == id && p.phase != held })
		if i >= 0 && m.order[i].phase == released {
			free = drained(m.order[i])
		}
		return i < 0 || m.order[i].phase == released
	})
	m.member.free = free
}

func drained(p *part) string { return "partition " + p.tp.String() + " is free to be handed over" }

// takeAway ends the partitions that are not assigned any more. What was released has gone its way; the rest is the repair of a claim that two
// members made.
func (m *Machine) takeAway(mine map[task.ID]bool) {
	var lost []task.TopicPartition
	for _, p := range slices.Clone(m.order) {
		if mine[p.id] {
			continue
		}
		if p.hasUser() {
			lost = append(lost, p.tp)
		}
		m.end(p, "the partition was given to another member")
	}
	if len(lost) > 0 {
		m.tell(TellLost{Parts: lost, Reason: "another member claims them as well"})
	}
}

// give runs a partition that is assigned. One that was offered to others in a round whose end this member did not hear of may have been
// somebody's since, and begins anew.
func (m *Machine) give(id task.ID, a group.Assigned) (task.TopicPartition, bool) {
	tp := task.TopicPartition{Topic: m.topics.names[id.Subtopology], Partition: id.Partition}
	p := m.parts[tp]
	if p != nil && p.phase != held && p.offered != 0 && a.Generation != p.offered+1 {
		m.end(p, "the partition may have been another member's")
		p = nil
	}
	if p == nil {
		m.open(tp, id, Start{At: Committed}).owed = true
		return tp, true
	}
	p.offered = 0
	stillMarked := slices.ContainsFunc(a.Marks, func(k assignor.Mark) bool { return k.Task == id })
	if p.phase == held || stillMarked && slices.Contains(m.member.late, id) {
		return tp, false
	}
	tell := p.parted || p.owed // that it stays, or that it is there
	p.phase, p.revocation, p.flushed, p.parted, p.owed, p.marking = held, 0, false, false, tell, false
	return tp, tell
}

// checkLease ends everything where the lease is over and no timer has said so yet: the process was suspended, and what it does first when it wakes up
// may be to save offsets, in a store that knows nothing of generations, or to return what others have read by now.
func (m *Machine) checkLease() {
	if end := m.member.machine.Lease(); !end.IsZero() && !m.now.Before(end) {
		m.stepMember(group.Tick{})
	}
}

// onLost ends everything at once.
func (m *Machine) onLost(reason string) {
	m.member.generation, m.member.prepare, m.member.late, m.member.free = -1, nil, nil, ""
	var lost []task.TopicPartition
	for _, p := range slices.Clone(m.order) {
		if p.hasUser() {
			lost = append(lost, p.tp)
		}
		m.end(p, "the membership was lost: "+reason)
	}
	if len(lost) > 0 {
		m.tell(TellLost{Parts: lost, Reason: reason})
	}
}
