package engine

import (
	"slices"
	"time"
)

// headStart is for how long at most a gap waits for the first results of what is new, from the first commit of its task on: as long as a broker holds
// a fetch that finds nothing. What is new has been waited for since the crash and is little; a gap is as large as may be, and would take the cores,
// the brokers and the batches that are on their way from the first new record that comes.
const headStart = 100 * time.Millisecond

// lead is how far the main paths of a life are ahead of its gaps, which have not begun.
type lead uint8

const (
	noLead      lead = iota // it has no gaps, or they have begun
	leadOpens               // the commit is on its way before which nothing new is taken
	leadFresh               // records that are new may come
	leadReached             // what they have made is in the log
)

// giveLead lets the gaps of a life wait for its main paths.
func (e *Engine) giveLead(l *life) {
	if len(l.recoveries) > 0 {
		l.lead, e.leading = leadOpens, true
	}
}

// leadCommitted notes that a commit of the life is done.
func (e *Engine) leadCommitted(l *life) {
	if l.lead == leadOpens {
		l.lead, l.leadUntil = leadFresh, e.now.Add(headStart)
	}
}

// leadAcked notes that something that the life has made is in the log.
func (l *life) leadAcked() {
	if l.lead == leadFresh {
		l.lead = leadReached
	}
}

// leads says that new records of the life may come, and that it is worth waiting for what they make.
func (e *Engine) leads(l *life) bool {
	return l.state == lifeRunning && (l.lead == leadOpens || l.lead == leadFresh && e.now.Before(l.leadUntil))
}

// flushLeads begins the gaps that have waited for long enough: until the main paths of all lives have results, and no longer than their own life
// may wait.
func (e *Engine) flushLeads() {
	if !e.leading {
		return
	}
	e.leading = false
	wait := slices.ContainsFunc(e.order, e.leads)
	for _, l := range e.order {
		switch {
		case l.lead == noLead || l.state == lifeClosing:
		case l.lead == leadOpens || l.state != lifeRunning: // they ask again when that is through
			e.leading = true
		case wait && e.now.Before(l.leadUntil):
			e.leading = true
			e.wakeAt(l.leadUntil)
		default:
			l.lead = noLead
			e.beginGaps(l)
		}
	}
}

// beginGaps begins to fetch what the second paths of a life read.
func (e *Engine) beginGaps(l *life) {
	for _, r := range l.recoveries {
		if !r.replay.Closed && r.replay.Position < r.replay.Hi {
			e.addRoute(l.replaySource(r.replay.Input), Recover, r.replay.Position, e.cfg.QueueBytes)
		}
	}
}
