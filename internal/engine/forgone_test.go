package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A task that was released without its last commit cannot be resumed: it begins anew.
func TestTaskThatHasForgoneItsCommitBeginsAnew(t *testing.T) {
	for _, crossing := range []bool{true, false} {
		w := running(t, nil, id00, id01)
		old := w.epoch(id00)
		w.e.release(w.e.lives[id00])
		if crossing {
			w.e.resume(w.e.lives[id00])
			w.step(TaskReleased{Task: id00, Epoch: old, Forgone: true})
		} else {
			w.step(TaskReleased{Task: id00, Epoch: old, Forgone: true})
			require.Contains(t, acted[ToSender](w), ToSender{ForgetTask{Task: id00, Epoch: old}})
			w.e.resume(w.e.lives[id00])
		}
		w.step(TaskClosed{Task: id00, Epoch: old})
		require.NotEqual(t, old, w.epoch(id00))
		require.Equal(t, lifeOpening, w.e.lives[id00].state)
		only[FetchOffsets](w)
	}
}
