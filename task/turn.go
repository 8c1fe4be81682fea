package task

import "time"

// Turn is held by the one task of a process that runs a record in the middle of which a process has died: see Config.Turn. It is for one goroutine.
type Turn struct {
	held  bool
	by    ID
	since time.Time
}

// longestTurn is how long a task may keep the others waiting: its record may be one that never returns.
const longestTurn = 30 * time.Second

// Ask takes the turn, if nobody else has it, or gives it back. It says whether the task has it, or has given it back.
func (t *Turn) Ask(now time.Time, id ID, take bool) bool {
	mine := t.held && t.by == id
	if !take {
		t.held = t.held && !mine
		return true
	}
	if t.held && !mine && now.Sub(t.since) < longestTurn {
		return false
	}
	t.held, t.by, t.since = true, id, now
	return true
}
