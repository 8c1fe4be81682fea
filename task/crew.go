package task

import (
	"errors"

	"github.com/understudy-streams/understudy/retry"
)

// crew is what a task knows of the items that it has workers for. Its records are taken in their order and done in any; the windows of the
// queues say which.
type crew struct {
	most  int  // items that are handed out at a time
	ahead int  // records that are taken and not done
	byKey bool // records of one key are run one after the other

	id      uint64
	running int  // handed out
	retries int  // of these, records that were put aside
	replays int  // records of gaps that are not done
	taken   int  // records of the main path and of gaps that are not done
	bytes   int  // they take
	stalled bool // the record at the head cannot be taken before some item is done
	shut    bool // the last commit of a release is made: no result counts any more

	again []*Item // to be handed out first
	ready []*Item
	lanes map[string]*lane
	free  []*Item
	out   []Dispatch // to be handed over
}

// lane is the line of the items of one key. The first is handed out, or ready to be.
type lane struct{ head, tail *Item }

const (
	itemsPerWorker = 2 // the second is at hand when the first is done
	aheadPerWorker = 16
	leastAhead     = 256
	mostAhead      = 4096
	mostItemBytes  = 8 << 20

	// A window is full where it holds so many records, or three quarters of what fits into a commit.
	mostKept    = 18_432
	mostMapBits = retry.MapRoom / 4 * 3

	// However large the map is that the last runner has left, nobody waits for it who adds less than this: it becomes smaller only as records are
	// taken.
	fewMapBits = retry.MapRoom / 10
)

var errScheduledBeside = errors.New("a schedule in a subtopology whose policy has several workers: schedule in another subtopology, or let it have one worker")

// loadCrew makes what the task needs to have its records run by workers, if the policy has several.
func (t *Task) loadCrew() error {
	set := t.cfg.Spec.Failure.Settings()
	if !t.cfg.Workers || set.Workers < 2 || !set.Mode.PutsAside() {
		return nil
	}
	if len(t.timers.all) > 0 {
		return &Error{Task: t.cfg.ID, Partition: -1, Offset: -1, Node: t.timers.all[0].node, Kind: KindPunctuate, Err: errScheduledBeside}
	}
	t.crew = &crew{
		most: itemsPerWorker * set.Workers, ahead: min(max(leastAhead, aheadPerWorker*set.Workers), mostAhead),
		byKey: set.Mode == retry.ModeKeyOrdered, lanes: make(map[string]*lane),
	}
	for i := range t.in.all {
		if q := &t.in.all[i]; q.window == nil {
			q.window = retry.NewWindow(q.position)
		}
	}
	return nil
}

// requeue lets an item be handed out again, before others.
func (c *crew) requeue(it *Item) { c.again = append(c.again, it) }

// next takes the next item that can be handed out.
func (c *crew) next() *Item {
	for _, line := range []*[]*Item{&c.again, &c.ready} {
		if n := len(*line); n > 0 {
			it := (*line)[0]
			copy(*line, (*line)[1:])
			(*line)[n-1] = nil
			*line = (*line)[:n-1]
			return it
		}
	}
	return nil
}

// waiting says that items are there to be handed out.
func (c *crew) waiting() bool { return len(c.again)+len(c.ready) > 0 }

// room says that one more item can be handed out.
func (c *crew) room() bool { return c.running < c.most }

// share is how much of what is handed out may be of gaps, or of what was put aside: a quarter while there are records of the main path, and else
// all but a quarter.
func (c *crew) share(fresh bool) int {
	if fresh {
		return c.quarter()
	}
	return c.most - c.quarter()
}

func (c *crew) quarter() int { return max(c.most/4, 1) }

// leavesRoom says that of both together there are not so many that a record of the main path which comes would find none.
func (c *crew) leavesRoom() bool { return c.room() && c.retries+c.replays < c.most-c.quarter() }

// roomForRetry bounds the share of records that were put aside.
func (c *crew) roomForRetry(fresh bool) bool { return c.leavesRoom() && c.retries < c.share(fresh) }

// takes says that a record of the main path may be taken.
func (c *crew) takes() bool {
	return c.room() && !c.stalled && c.taken < c.ahead && c.bytes < mostItemBytes
}

// item is an unused one.
func (c *crew) item() *Item {
	n := len(c.free)
	if n == 0 {
		return &Item{}
	}
	it := c.free[n-1]
	c.free[n-1] = nil
	c.free = c.free[:n-1]
	return it
}

// release takes an item back for the next record. Nobody runs it.
func (c *crew) release(it *Item) {
	it.entry, it.next, it.gap, it.tries = nil, nil, nil, tries{}
	it.seen.reruns, it.seen.cancelled = 0, false
	if len(c.free) < c.most {
		c.free = append(c.free, it)
	}
}

// join puts an item into the lane of its key, and says whether it is the first there.
func (c *crew) join(it *Item) bool {
	if !c.byKey || it.Record.Key == nil {
		return true
	}
	l := c.lanes[string(it.Record.Key)]
	if l == nil {
		c.lanes[string(it.Record.Key)] = &lane{it, it}
		return true
	}
	l.tail.next, l.tail = it, it
	return false
}

// leave takes an item that is first in its lane out of it, and returns the next one.
func (c *crew) leave(it *Item) *Item {
	if !c.byKey || it.Record.Key == nil {
		return nil
	}
	l := c.lanes[string(it.Record.Key)]
	if l == nil || l.head != it {
		return nil
	}
	l.head = it.next
	it.next = nil
	if l.head == nil {
		delete(c.lanes, string(it.Record.Key))
	}
	return l.head
}

// occupied says that an item of this key is not done.
func (c *crew) occupied(key []byte) bool {
	return len(c.lanes) > 0 && key != nil && c.lanes[string(key)] != nil
}

// cancelled notes that the calls of everything that runs are cancelled: what they fail with says nothing of their records.
func (t *Task) cancelled() {
	for _, it := range t.watch.running {
		it.seen.cancelled = true
	}
}
