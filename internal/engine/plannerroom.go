package engine

import "github.com/understudy-streams/understudy/task"

// leastAsk is asked for however little room there is: a batch that is larger comes all the same once it is the partition's turn.
const leastAsk = 4 << 10

// firstSwells is what a byte is taken to weigh before the first answer.
const firstSwells = 4

// room is how much may come without going far beyond the bound. A batch may weigh more than the bytes that are asked for, with compressed
// records many times more.
func (p *Planner) room(f *fetchPart, most int32) int32 {
	return int32(min(max((f.bound-f.held)/max(f.swells, 1), leastAsk), int(most)))
}

// A partition whose next batch is larger than what is asked of it brings nothing, but for the first one of an answer that has something: of that a
// broker sends a whole batch. Where many partitions share the memory, each has little room, and a Fetch that asks for all of them would bring one
// batch for all of a broker's trouble. So those whose batches are known to be larger are asked for as much as they need, as many of them at a time
// as there is room for in all bounds together.

// asking shares the room of all partitions out to those that need more than their own.
type asking struct {
	free   int
	needed bool // one of those that need more has been asked for: it is, however little room there is
}

func (p *Planner) asking() asking {
	var a asking
	for _, f := range p.parts {
		a.free += f.bound - f.held
	}
	return a
}

// grants says whether a partition is asked for now.
func (a *asking) grants(f *fetchPart) bool {
	if f.need == 0 {
		a.free -= max(f.bound-f.held, 0)
		return true
	}
	weighs := int(f.need) * max(f.swells, 1)
	if a.needed && weighs > a.free {
		return false
	}
	a.needed = true
	a.free -= weighs
	return true
}

// nothing takes in an answer without anything for a partition. If there is something, and another one has had the whole batch that an answer has
// at least, its own next one is larger than what was asked for. It may also be of a transaction that goes on, so it waits for its turn as others do.
func (p *Planner) nothing(f *fetchPart, b *task.Batch) {
	switch {
	case p.cfg.Turns:
		return
	case p.came && b != nil && b.HighWatermark > f.offset:
		f.need = min(max(f.asked*2, p.cfg.PartBytes), p.cfg.MaxBytes/2)
		f.swells = min(f.swells, firstSwells) // a batch that came whole has weighed more than what was asked for
	case f.need == 0:
		return
	default:
		f.need = 0
	}
	p.toEnd(f)
}
