package streams

// budget divides Config.Memory: what each part of the process may hold, in bytes.
//
//	16/32  the database: block cache and memtables together
//	 6/32  rows in memory, uncommitted and cached
//	 6/32  restores, all of them together
//	 1/32  input that waits to be processed
//	 1/32  output that waits for its acknowledgement
//	 2/32  what is being read from, and encoded for, the brokers
//
// A task gets its share of the whole application, since all of it may run here. No share is smaller than what it takes to go on at all, so with
// very many tasks the sum grows with their number: see leastPerTask.
type budget struct {
	database int64

	queue   int // of one input partition
	credit  int // of one task: output without an acknowledgement
	rows    int // of one task: cached and uncommitted rows, over all of its stores
	dirty   int // of one task: uncommitted state at which it commits
	answer  int // one answer to a fetch
	request int // one produce request

	restore int // what a restore writes at once
}

// What bytes are counted as is less than the memory that they take.
const (
	// Queues count what they hold. They are filled up to their bound by answers that do not know what the bytes become once decompressed.
	queueFactor = 2
	// Output counts 24 bytes for each record beside its bytes. It takes 32, and slices grow by doubling.
	creditFactor = 2
	// While rows are committed there are those that are changed anew beside them, and a copy that is being sent.
	dirtyFactor = 4
	// All restores together hold three times what one writes at once.
	restoreFactor = 3
)

const (
	leastQueue   = 8 << 10
	leastCredit  = 16 << 10
	leastRows    = 64 << 10
	leastDirty   = 16 << 10
	leastRestore = 1 << 20

	// leastPerTask is what a task with one input takes at the least.
	leastPerTask = queueFactor*leastQueue + creditFactor*leastCredit + leastRows
)

// budgetOf is the budget of an application with so many tasks that read so many partitions. Both may be 0 while they are not known.
func budgetOf(memory int64, tasks, inputs int) budget {
	part := func(parts int64, n, least, most int) int {
		return int(min(max(memory*parts/32/int64(max(n, 1)), int64(least)), int64(most)))
	}
	b := budget{
		database: memory / 2,
		rows:     part(6, tasks, leastRows, 128<<20),
		restore:  part(6, restoreFactor, leastRestore, 64<<20),
		queue:    part(1, queueFactor*inputs, leastQueue, 4<<20),
		credit:   part(1, creditFactor*tasks, leastCredit, 16<<20),
		answer:   part(2, 4, 256<<10, 8<<20),
		request:  part(2, 4, 256<<10, 32<<20),
	}
	b.dirty = min(max(b.rows/dirtyFactor, leastDirty), 16<<20)
	return b
}
