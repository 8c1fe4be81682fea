package engine

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// prepare is a release under way: the join waits for it, at most for the budget.
type prepare struct {
	join  uint64
	until time.Time
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

// beginPrepare releases what is to be handed over before the join is sent.
func (e *Engine) beginPrepare(p group.Prepare) {
	e.prepare = &prepare{join: p.Join, until: e.now.Add(e.cfg.Release)}
	for _, mark := range p.Marks {
		id := mark.Task
		if !mark.Ready {
			continue
		}
		l := e.lives[id]
		if l == nil || l.stuck {
			continue
		}
		switch l.state {
		case lifeRunning:
			e.prepare.ids = append(e.prepare.ids, id)
			e.release(l)
		case lifeReleasing:
			e.prepare.ids = append(e.prepare.ids, id)
		case lifeOpening, lifeRestoring:
			e.closeLife(l) // it costs nothing to let go: nothing has been processed
		}
	}
}

// settlePrepare answers the member when everything is released, or when the budget is used up, or when lost tasks are gone.
func (e *Engine) settlePrepare() {
	p := e.prepare
	if p == nil {
		return
	}
	wait := false
	until := func(at time.Time) {
		if e.now.Before(at) {
			wait = true
			e.wakeAt(at)
		}
	}
	for _, l := range e.order {
		switch {
		case l.state == lifeReleasing && slices.Contains(p.ids, l.id):
			until(p.until)
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
		case l.again: // it is opened anew when the life before has ended: nobody else may have it
			ev.Claims = append(ev.Claims, l.id)
		case l.stuck, l.ending(): // nothing of it counts any more, but its owner may be in the middle of a step still
			ev.Unfit = append(ev.Unfit, l.id)
		case l.state == lifeReleased:
			l.offered = e.granted
			ev.Released = append(ev.Released, l.id)
		case l.state == lifeReleasing:
			if slices.Contains(p.ids, l.id) {
				e.late = append(e.late, l.id)
				e.note(Notice{Kind: NoticeReleaseOverdue, Task: l.id})
			}
			ev.Claims = append(ev.Claims, l.id)
		case l.state != lifeClosing:
			ev.Claims = append(ev.Claims, l.id)
		}
	}
	e.step(ev)
}

// assign brings the tasks of this process in line with an assignment.
func (e *Engine) assign(a group.Assigned) {
	e.assigned, e.granted, e.prepare = true, a.Generation, nil
	e.anew()
	if e.stopping() {
		return // everything is being released already
	}
	e.note(Notice{Kind: NoticeAssigned, Tasks: slices.Clone(a.Tasks), Generation: a.Generation, Text: a.Reason})
	if e.refreshAt.IsZero() {
		e.refreshAt, e.purge.at = e.now.Add(e.cfg.RefreshEvery), e.now.Add(e.cfg.PurgeEvery)
		e.wakeAt(minTime(e.refreshAt, e.purge.at))
	}
	for _, l := range slices.Clone(e.order) {
		if !slices.Contains(a.Tasks, l.id) {
			e.takeAway(l)
		}
	}
	ask := ""
	for _, id := range a.Tasks {
		late := slices.ContainsFunc(a.Marks, func(k assignor.Mark) bool { return k.Task == id }) && slices.Contains(e.late, id)
		if late && !e.lives[id].drains() { // else it asks when it is drained
			ask = drained(id)
		}
		e.give(id, late)
	}
	if ask != "" { // last: the round that it asks for may begin at once, with releases
		e.step(groupRejoin(ask))
	}
}

// takeAway ends a task that an assignment does not have any more. What runs is declared with every join and stays with whoever declares it,
// so this is the repair of a claim that two members made: the other one may be running the task already, and nothing more of ours may be
// committed.
func (e *Engine) takeAway(l *life) {
	l.again = false
	switch l.state {
	case lifeRunning, lifeReleasing:
		e.note(Notice{Kind: NoticeTask, Task: l.id, Text: "taken away"})
		e.loseLife(l)
	case lifeReleased, lifeOpening, lifeRestoring:
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
		e.open(id)
		return
	}
	switch l.state {
	case lifeReleased, lifeReleasing:
		switch {
		case l.offered != 0 && e.granted != l.offered+1:
			e.closeLife(l)
			l.again = true
		case !late:
			e.resume(l)
		}
	case lifeClosing:
		l.again = !l.stuck
	}
}

// lose ends everything at once: the membership is over, somebody else may run the tasks already.
func (e *Engine) lose(a group.Lost) {
	e.assigned, e.prepare = false, nil
	e.note(Notice{Kind: NoticeLost, Text: a.Reason})
	e.do(ToSender{Event: DropAll{Epoch: e.epochs}})
	e.committer.drop()
	for _, l := range slices.Clone(e.order) {
		l.again = false
		e.loseLife(l)
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
