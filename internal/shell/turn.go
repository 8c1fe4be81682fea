package shell

import (
	"sync"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// turn is held by the one task of the process that runs a record in the middle of which a process has died.
type turn struct {
	mu    sync.Mutex
	held  bool
	by    task.ID
	since time.Time
}

// longestTurn is how long a task may keep the others waiting: its record may be one that never returns.
const longestTurn = 30 * time.Second

// ask takes the turn, if nobody else has it, or gives it back.
func (t *turn) ask(id task.ID, take bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
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
