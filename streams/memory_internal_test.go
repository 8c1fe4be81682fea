package streams

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// whole is what an application holds at the most by its budget, with all its tasks here and one broker.
func (b budget) whole(tasks, inputs int) int64 {
	perTask := int64(b.credit*creditFactor + max(b.rows, b.dirty*dirtyFactor))
	return b.database + int64(tasks)*perTask + int64(inputs)*int64(b.queue*queueFactor) +
		int64(b.restore*restoreFactor) + int64(2*b.answer+2*b.request)
}

func TestBudget(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	cases := []struct {
		memory int64
		tasks  int
		want   budget
	}{
		{32 * m, 1, budget{queue: 512 * k, credit: 512 * k, rows: 6 * m, dirty: 1536 * k, restore: 2 * m, answer: 512 * k, request: 512 * k}},
		{64 * m, 1, budget{queue: m, credit: m, rows: 12 * m, dirty: 3 * m, restore: 4 * m, answer: m, request: m}},
		{64 * m, 8, budget{queue: 128 * k, credit: 128 * k, rows: 1536 * k, dirty: 384 * k, restore: 4 * m, answer: m, request: m}},
		{64 * m, 64, budget{queue: 16 * k, credit: 16 * k, rows: 192 * k, dirty: 48 * k, restore: 4 * m, answer: m, request: m}},
		{64 * m, 200, budget{queue: leastQueue, credit: leastCredit, rows: leastRows, dirty: leastDirty, restore: 4 * m, answer: m, request: m}},
		{64 * m, 1000, budget{queue: leastQueue, credit: leastCredit, rows: leastRows, dirty: leastDirty, restore: 4 * m, answer: m, request: m}},
		{512 * m, 1, budget{queue: 4 * m, credit: 8 * m, rows: 96 * m, dirty: 16 * m, restore: 32 * m, answer: 8 * m, request: 8 * m}},
		{512 * m, 8, budget{queue: m, credit: m, rows: 12 * m, dirty: 3 * m, restore: 32 * m, answer: 8 * m, request: 8 * m}},
		{512 * m, 64, budget{queue: 128 * k, credit: 128 * k, rows: 1536 * k, dirty: 384 * k, restore: 32 * m, answer: 8 * m, request: 8 * m}},
		{512 * m, 200, budget{queue: 41943, credit: 41943, rows: 503316, dirty: 125829, restore: 32 * m, answer: 8 * m, request: 8 * m}},
		{512 * m, 1000, budget{queue: 8388, credit: leastCredit, rows: 100663, dirty: 25165, restore: 32 * m, answer: 8 * m, request: 8 * m}},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d MiB, %d tasks", c.memory/m, c.tasks), func(t *testing.T) {
			c.want.database = c.memory / 2
			require.Equal(t, c.want, budgetOf(c.memory, c.tasks, c.tasks))
		})
	}
}

// The parts of a budget are no more than the whole, unless the least that tasks need is.
func TestBudgetAddsUp(t *testing.T) {
	for memory := int64(minMemory); memory <= 64<<30; memory *= 2 {
		for _, tasks := range []int{0, 1, 3, 8, 64, 200, 1000, 10_000} {
			for _, inputs := range []int{tasks, 2 * tasks} {
				b := budgetOf(memory, tasks, inputs)
				least := int64(tasks)*leastPerTask + int64(max(inputs-tasks, 0))*queueFactor*leastQueue
				require.LessOrEqual(t, b.whole(tasks, inputs), memory+least, "%d MiB, %d tasks, %d inputs", memory>>20, tasks, inputs)
				if memory/32 >= int64(tasks)*creditFactor*leastCredit && memory/32 >= int64(inputs)*queueFactor*leastQueue &&
					6*memory/32 >= int64(tasks)*leastRows && memory/32*2 >= restoreFactor*leastRestore {
					require.LessOrEqual(t, b.whole(tasks, inputs), memory, "%d MiB, %d tasks, %d inputs", memory>>20, tasks, inputs)
				}
			}
		}
	}
}
