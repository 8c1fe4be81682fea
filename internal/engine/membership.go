package engine

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// prepare is a release under way: the join waits for each task, at most for the budget.
type prepare struct {
	join  uint64
	marks []assignor.Mark
	ids   []task.ID // to be released
}

func groupRejoin(reason string) group.Event { return group.Rejoin{Reason: reason} }

// step tells the member something and deals with what it decides; requests go to the shell.
func (e *Engine) step(ev group.Event) {
	for _, a := range slices.Clone(e.member.Step(e.now, ev)) {
		switch a := a.(type) {
		case group.Prepare:
			e.beginPrepare(a)
		case group.Assigned:
			e.assign(a)
		case group.Lost:
			e.lose(a)
		case group.Fatal:
			e.parted = true // there is nothing to leave
			e.fail(a.Err)
		case group.Left:
			e.leftGroup()
		case group.Wake:
			e.wakeAt(a.At)
		default:
			e.do(MemberAction{Action: a})
		}
	}
	if until := e.member.Lease(); !until.IsZero() && !until.Equal(e.leased) {
		e.leased = until
		e.do(ToSender{Event: Leased{Until: until}})
	}
}

// beginPrepare releases what is to be handed over before the join is sent. What has not begun to process is let go of as well, at no cost:
// whoever is closest to its end has it next.
func (e *Engine) beginPrepare(p group.Prepare) {
	if e.roundAt.IsZero() {
		e.roundAt = e.now
	}
	e.prepare = &prepare{join: p.Join, marks: p.Marks}
	e.learners.askAt, e.board.until = time.Time{}, e.now.Add(boardTime)
	marked := map[task.ID]bool{}
	for _, k := range p.Marks {
		marked[k.Task] = true
		if l := e.lives[k.Task]; k.Ready && l != nil && !l.stuck {
			e.releaseMarked(l)
		}
	}
	for _, l := range slices.Clone(e.order) {
		if l.role != Active || l.state != lifeOpening && l.state != lifeRestoring {
			continue
		}
		switch {
		case l.follows():
			e.holdBack(l, Learner)
			l.held = true
		case marked[l.id]:
			e.closeLife(l)
		}
	}
	e.readBoard(p.Marks)
	e.lookAround()
}

// releaseMarked releases a task for the join that is being prepared.
func (e *Engine) releaseMarked(l *life) {
	switch l.state {
	case lifeRunning:
		e.prepare.ids = append(e.prepare.ids, l.id)
		e.release(l)
	case lifeReleasing:
		e.prepare.ids = append(e.prepare.ids, l.id)
	}
}

// settlePrepare answers the member when everything is released, or when the budget is used up, or when lost tasks are gone.
func (e *Engine) settlePrepare() {
	p := e.prepare
	if p == nil {
		return
	}
	wait := e.boardPending()
	until := func(at time.Time) {
		if e.now.Before(at) {
			wait = true
			e.wakeAt(at)
		}
	}
	for _, l := range e.order {
		switch {
		case l.state == lifeReleasing && slices.Contains(p.ids, l.id):
			until(l.since.Add(e.cfg.Release)) // one that was late for an earlier round holds up no other
		case l.state == lifeClosing && !l.stuck && !e.assigned:
			wait = true
		case l.ending():
			until(l.since.Add(e.cfg.Release))
		}
	}
	if wait {
		return
	}
	e.prepare, e.late = nil, e.late[:0]
	ev := group.Prepared{Join: p.join}
	for _, l := range e.order {
		switch {
		case l.again && l.then == Active: // it is opened anew when the life before has ended: nobody else may have it
			ev.Claims = append(ev.Claims, l.id)
		case l.role != Active && l.state != lifeClosing: // a copy
		case l.stuck, l.ending(): // nothing of it counts any more, but its owner may be in the middle of a step still
			ev.Unfit = append(ev.Unfit, l.id)
		case l.state == lifeReleased:
			l.offered = e.granted
			ev.Released = append(ev.Released, l.id)
		case l.state == lifeReleasing:
			if slices.Contains(p.ids, l.id) {
				e.late = append(e.late, l.id)
				ev.Late = append(ev.Late, l.id)
				e.note(Notice{Kind: NoticeReleaseOverdue, Task: l.id})
			}
			ev.Claims = append(ev.Claims, l.id)
		case l.state != lifeClosing:
			ev.Claims = append(ev.Claims, l.id)
		}
	}
	ev.Replicas = e.copies()
	e.learners.stall = "" // it is in there
	e.step(ev)
}

// assign brings the tasks of this process in line with an assignment.
func (e *Engine) assign(a group.Assigned) {
	e.noteRebalance(a)
	if a.Outdated && !e.outdated {
		e.note(Notice{Kind: NoticeOutdated, Text: outdatedText})
	}
	e.outdated = a.Outdated
	e.assigned, e.granted, e.prepare, e.members, e.leaving = true, a.Generation, nil, a.Members, a.Draining
	e.board.read, e.learners.askAt = 0, time.Time{}
	e.anew()
	if e.stopping() {
		return // everything is being released already
	}
	e.note(Notice{Kind: NoticeAssigned, Tasks: slices.Clone(a.Tasks), Generation: a.Generation, Text: a.Reason})
	if e.refreshAt.IsZero() {
		e.refreshAt, e.purge.at = e.now.Add(e.cfg.RefreshEvery), e.now.Add(e.cfg.PurgeEvery)
		e.wakeAt(minTime(e.refreshAt, e.purge.at))
	}
	roles := e.rolesOf(a)
	for _, l := range slices.Clone(e.order) {
		if _, has := roles[l.id]; !has {
			e.takeAway(l)
		}
	}
	ask := ""
	for _, id := range a.Tasks {
		late := e.movesLater(a, id)
		if late && !e.lives[id].drains() { // else it asks when it is drained
			ask = drained(id)
		}
		e.give(id, late)
	}
	e.takeCopies(a, roles)
	if ask != "" { // last: the round that it asks for may begin at once, with releases
		e.step(groupRejoin(ask))
	}
}

const outdatedText = "the group runs another form of a part of this topology, under a higher TopologyVersion or from before: " +
	"this process gets no more tasks of it; replace the program, or raise TopologyVersion if this is the one to keep"

// takeAway ends a task that an assignment does not have any more. What runs is declared with every join and stays with whoever declares it,
// so this is the repair of a claim that two members made: the other one may be running the task already, and nothing more of ours may be
// committed.
func (e *Engine) takeAway(l *life) {
	l.again, l.restarts = false, nil
	switch l.state {
	case lifeRunning, lifeReleasing:
		e.note(Notice{Kind: NoticeTask, Task: l.id, Text: "taken away"})
		e.loseLife(l)
	case lifeReleased, lifeOpening, lifeRestoring, lifeFollowing:
		e.closeLife(l)
	}
}

// ending says that the owner of a life that is over has not said yet that it has stopped.
func (l *life) ending() bool { return l.state == lifeClosing && l.owned && !l.stuck }

// give runs a task that is assigned. One that was offered to others in a round whose end this member did not hear of may have been somebody's
// since: what is known of it here is old, and it is opened anew. One that was released too late for this round, and shall move in the next, stays released.
func (e *Engine) give(id task.ID, late bool) {
	l := e.lives[id]
	if l == nil {
		e.open(id, Active)
		return
	}
	if l.role != Active && l.state != lifeClosing {
		e.activate(l)
		return
	}
	switch l.state {
	case lifeReleased, lifeReleasing:
		switch {
		case l.offered != 0 && e.granted != l.offered+1:
			e.closeLife(l)
			l.again, l.then = true, Active
		case !late:
			e.resume(l)
		}
	case lifeClosing:
		l.again, l.then = !l.stuck, Active
	}
}

// lose ends everything at once: the membership is over, somebody else may run the tasks already. What only follows goes on with that.
func (e *Engine) lose(a group.Lost) {
	e.assigned, e.prepare, e.board, e.roundAt = false, nil, board{}, time.Time{}
	e.note(Notice{Kind: NoticeLost, Text: a.Reason})
	e.do(ToSender{Event: DropAll{Epoch: e.epochs}})
	e.committer.drop()
	for _, l := range slices.Clone(e.order) {
		switch {
		case l.state == lifeClosing:
			l.again = l.again && l.then != Active
		case l.role != Active:
			if l.learn != nil { // its row names a member that is no more
				l.learn.shown, l.learn.failed = false, 0
			}
		case (l.state == lifeOpening || l.state == lifeRestoring) && l.follows():
			e.holdBack(l, Standby)
		default:
			e.loseLife(l)
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// movesLater says that a task was released too late for the round that has ended, and shall move in the next.
func (e *Engine) movesLater(a group.Assigned, id task.ID) bool {
	return slices.Contains(e.late, id) && slices.ContainsFunc(a.Marks, func(k assignor.Mark) bool { return k.Task == id })
}

// noteRebalance tells how a rebalance went: how long it took here, and which tasks of this process stood still in it. What goes on standing
// still is told of by the round in which that ends, with the whole of its pause.
func (e *Engine) noteRebalance(a group.Assigned) {
	n := Notice{
		Kind: NoticeRebalanced, Generation: a.Generation, Text: a.Reason, Tasks: slices.Clone(a.Tasks), Moves: a.Moves,
		Leader: a.Leader, Unassigned: a.Unassigned, What: a.Degraded,
	}
	if !e.roundAt.IsZero() {
		n.Took = e.now.Sub(e.roundAt)
	}
	e.roundAt = time.Time{}
	for _, l := range e.order {
		if l.role == Active && (l.state == lifeReleased || l.state == lifeReleasing) && !e.movesLater(a, l.id) {
			n.Paused = append(n.Paused, Pause{Task: l.id, For: e.now.Sub(l.paused), Moved: !slices.Contains(a.Tasks, l.id)})
		}
	}
	e.note(n)
}

// topology is what the group needs to know of the application.
func (e *Engine) topology() group.Topology {
	t := group.Topology{Partitions: map[string]int32{}}
	for _, s := range e.cfg.Specs {
		sub := group.Subtopology{
			ID: s.Subtopology, Source: s.Source, Stateful: hasChangelogs(s), Hash: e.cfg.Hashes[s.Subtopology],
			Tasks: s.Tasks(func(topic string) int32 { return e.counts[topic] }),
		}
		for _, in := range s.Inputs {
			sub.Topics = append(sub.Topics, in.Topic)
			t.Partitions[in.Topic] = e.counts[in.Topic]
		}
		t.Subtopologies = append(t.Subtopologies, sub)
	}
	return t
}
