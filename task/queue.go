package task

import "github.com/understudy-streams/understudy/retry"

// queue holds the batches of one input that are not processed yet. Its bound in bytes is kept by whoever fetches: the queue says what it
// holds, and each finished batch is given back.
type queue struct {
	batches []*Batch      // the first one is being processed
	reader  Reader        // over the first one
	buffer  [ahead]Record // the next ones of it, decoded
	at, n   int           // those from at to n are to come: the first is at the head, only while the queue is not empty
	fresh   bool          // records were decoded since the last look
	guarded bool          // a record is looked at before it is taken

	redrives bool          // its records have been dead letters
	window   *retry.Window // what is done out of its order; nil where nothing is

	absent bool // the topic has no partition for the task

	lags  bool  // it is empty and the partition has more, or might have
	known int64 // the end of the partition as far as it is known; -1 before the first batch

	position int64 // everything below is processed
	end      int64 // everything below has been added
	bytes    int
	consumed int      // bytes given back since the last look
	done     []*Batch // finished since the last look
	time     int64    // partition time: the highest timestamp taken so far, -1 before the first
}

// ahead is how many records are decoded at once: their rows can be looked for together.
const ahead = 16

// add appends a batch. Records below what was added already are skipped: a broker answers with whole batches.
func (q *queue) add(b *Batch) {
	b.From = max(b.From, q.end)
	q.end = max(q.end, b.Next)
	q.known = max(q.known, b.HighWatermark)
	q.batches = append(q.batches, b)
	q.bytes += b.Bytes
	if len(q.batches) == 1 {
		q.reader.Reset(b, 0)
		q.refill()
	}
}

// refill decodes the next records. Finished batches are dropped, so that a record is at the head or the queue is empty.
func (q *queue) refill() {
	done := 0
	for {
		q.at, q.n = 0, q.reader.Fill(q.buffer[:])
		if q.n > 0 {
			q.fresh = true
			break
		}
		b := q.batches[done]
		q.position = max(q.position, b.Next)
		q.bytes -= b.Bytes
		q.consumed += b.Bytes
		q.done = append(q.done, b)
		done++
		if done == len(q.batches) {
			break
		}
		q.reader.Reset(q.batches[done], 0)
	}
	if done > 0 {
		q.forget(done)
	}
}

func (q *queue) forget(n int) {
	kept := copy(q.batches, q.batches[n:])
	clear(q.batches[kept:])
	q.batches = q.batches[:kept]
}

func (q *queue) empty() bool { return len(q.batches) == 0 }

func (q *queue) peek() *Record { return &q.buffer[q.at] }

// advance finishes the record at the head.
func (q *queue) advance() {
	q.position = q.buffer[q.at].Offset + 1
	q.at++
	if q.at == q.n {
		q.refill()
	}
}

// drop forgets everything. The batches are not given back for their memory: what failed may still be told with them.
func (q *queue) drop() {
	q.forget(len(q.batches))
	q.reader, q.at, q.n, q.buffer = Reader{}, 0, 0, [ahead]Record{}
	q.consumed += q.bytes
	q.bytes = 0
}

// queues orders the inputs of a task: the lowest head timestamp first, ties by the order of inputs. It is a heap over the queues that have
// a record.
type queues struct {
	all     []queue
	heap    []int32
	lagging int // queues that lag
}

func newQueues(positions []int64) queues {
	q := queues{all: make([]queue, len(positions)), heap: make([]int32, 0, len(positions))}
	for i, p := range positions {
		q.all[i].position, q.all[i].end, q.all[i].time, q.all[i].known = p, p, -1, -1
		q.all[i].absent = p < 0
		q.look(&q.all[i])
	}
	return q
}

func (q *queues) add(input int, b *Batch) {
	was := q.all[input].empty()
	q.all[input].add(b)
	if was && !q.all[input].empty() {
		q.heap = append(q.heap, int32(input))
		q.up(len(q.heap) - 1)
	}
	q.look(&q.all[input])
}

// look notes whether a queue lags.
func (q *queues) look(one *queue) {
	lags := !one.absent && one.empty() && (one.known < 0 || one.end < one.known)
	if lags != one.lags {
		one.lags = lags
		if lags {
			q.lagging++
		} else {
			q.lagging--
		}
	}
}

// next returns the input whose head is to be processed, -1 if all are empty.
func (q *queues) next() int {
	if len(q.heap) == 0 {
		return -1
	}
	return int(q.heap[0])
}

// advance finishes the head of the input that next returned.
func (q *queues) advance() {
	first := &q.all[q.heap[0]]
	first.advance()
	n := len(q.heap)
	if first.empty() {
		q.heap[0] = q.heap[n-1]
		q.heap = q.heap[:n-1]
		q.look(first)
	}
	if len(q.heap) > 1 {
		q.down()
	}
}

func (q *queues) less(a, b int32) bool {
	x, y := q.all[a].peek().Timestamp, q.all[b].peek().Timestamp
	return x < y || x == y && a < b
}

func (q *queues) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(q.heap[i], q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *queues) down() {
	i := 0
	for {
		c := 2*i + 1
		if c >= len(q.heap) {
			return
		}
		if c+1 < len(q.heap) && q.less(q.heap[c+1], q.heap[c]) {
			c++
		}
		if !q.less(q.heap[c], q.heap[i]) {
			return
		}
		q.heap[i], q.heap[c] = q.heap[c], q.heap[i]
		i = c
	}
}

func (q *queues) drop() {
	for i := range q.all {
		q.all[i].drop()
	}
	q.heap = q.heap[:0]
}
