package shell

import (
	"sync"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// turn is the task.Turn of a process, for the goroutines of all tasks.
type turn struct {
	mu   sync.Mutex
	turn task.Turn
}

func (t *turn) ask(id task.ID, take bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn.Ask(time.Now(), id, take)
}
