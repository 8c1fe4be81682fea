package engine

import (
	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// rolesOf are the tasks that an assignment gives this process, but for promises of tasks that have nothing to be learned.
func (e *Engine) rolesOf(a group.Assigned) map[task.ID]Role {
	roles := map[task.ID]Role{}
	for _, s := range a.Standbys {
		if e.learnable(s.Task) {
			roles[s.Task] = Standby
		}
	}
	for _, in := range a.Learners {
		if e.learnable(in.Task) {
			roles[in.Task] = Learner
		}
	}
	for _, id := range a.Tasks {
		roles[id] = Active
	}
	return roles
}

// learnable says whether a task has changelogs. What this program does not have is not learned.
func (e *Engine) learnable(id task.ID) bool {
	s := e.specs[id.Subtopology]
	return s != nil && hasChangelogs(s)
}

// takeCopies brings the standbys and learners of this process in line with an assignment.
func (e *Engine) takeCopies(a group.Assigned, roles map[task.ID]Role) {
	for _, in := range a.Learners {
		if roles[in.Task] == Learner {
			e.take(in.Task, Learner, in.Owner)
		}
	}
	for _, s := range a.Standbys {
		if roles[s.Task] == Standby {
			e.take(s.Task, Standby, s.Owner)
		}
	}
	for _, l := range e.order {
		l.held = false
	}
	e.noteMoves(a.Moves)
}

// take makes the task of this process a standby or a learner, whatever it is now, with its stores as they are.
func (e *Engine) take(id task.ID, role Role, owner string) {
	l := e.lives[id]
	if l == nil {
		if l = e.open(id, role); l != nil {
			l.owner = owner
		}
		return
	}
	l.owner = owner
	switch {
	case l.state == lifeClosing:
		l.again, l.then = !l.stuck, role
	case l.role != Active:
		e.recast(l, role)
	case l.state == lifeOpening || l.state == lifeRestoring:
		e.holdBack(l, role)
	default:
		if l.state != lifeReleased { // the repair of a claim that two members made: see takeAway
			e.note(Notice{Kind: NoticeTask, Task: l.id, Text: "taken away"})
			e.loseLife(l)
		} else {
			e.closeLife(l)
		}
		l.again, l.then = !l.stuck, role
	}
}

// recast makes a standby of a learner or the other way round: it follows on.
func (e *Engine) recast(l *life, role Role) {
	if l.role == role {
		return
	}
	l.role = role
	if l.learn != nil {
		l.learn = &learning{since: e.now}
	}
	e.note(Notice{Kind: NoticeTask, Task: l.id, Role: role, Text: l.state.String()})
}

// holdBack makes a follower of a task that was made active and has not begun to process.
func (e *Engine) holdBack(l *life, role Role) {
	l.role, l.restarts = role, nil
	if l.begun() {
		e.beginFollow(l)
		return
	}
	l.restore = nil
	e.await(l)
	e.setLife(l, lifeOpening)
}

// activate makes a follower the owner of its task: it asks for the offsets and for the ends of the changelogs, which count only if they are
// asked for from now on, and reads on meanwhile.
func (e *Engine) activate(l *life) {
	e.epochs++
	l.promotion = promotion{at: e.now, lag: l.lag(), copied: l.role != Active}
	l.epoch, l.grant, l.role, l.offered, l.learn, l.owner = e.epochs, e.granted, Active, 0, nil, ""
	l.acked, l.asked, l.rewrites = 0, 0, 0 // the next owner counts anew
	e.await(l)
	e.setLife(l, lifeOpening)
	for _, p := range l.restore {
		e.writePart(l, p)
	}
}

// reborn goes on with a life whose owner has ended, in its next role, with its stores as they are.
func (e *Engine) reborn(l *life) {
	l.again, l.hollow, l.renews, l.lacked = false, false, false, l.lackedByOwner()
	l.ends, l.holes = nil, nil
	e.do(FreeReaders{Task: l.id, Epoch: l.key})
	if l.then == Active {
		e.activate(l)
		return
	}
	e.epochs++ // what comes of the last owner, or of what was asked for it, is not for the follower
	l.role, l.epoch, l.restarts = l.then, e.epochs, nil
	e.await(l)
	e.setLife(l, lifeOpening)
}

// lackedByOwner is what the stores of an owner that has ended lack of what it wrote to its changelogs.
func (l *life) lackedByOwner() int64 {
	if l.ends == nil {
		return -1
	}
	n := int64(0)
	for i, end := range l.ends {
		n += max(0, end-max(l.at[i], 0))
	}
	return n
}

// promoted tells that a copy has become the owner of its task.
func (e *Engine) promoted(l *life) {
	if l.promotion.copied {
		e.note(Notice{Kind: NoticePromoted, Task: l.id, Records: max(0, l.promotion.lag), Took: e.now.Sub(l.promotion.at)})
	}
	l.promotion = promotion{}
}

// noteMoves keeps the reason of the last move of each task that is here, and tells what the plan moves.
func (e *Engine) noteMoves(moves []assignor.Move) {
	for _, m := range moves {
		if l := e.lives[m.Task]; l != nil && (m.Kind != assignor.Transferred || l.move == "") { // why it was begun says more than that it is done
			l.move = m.Reason
		}
	}
}
