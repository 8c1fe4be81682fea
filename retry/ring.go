package retry

// ring is a queue of offsets in ascending order, each open or closed. The first is open. An offset that is closed is kept as its complement,
// which is negative.
type ring struct {
	slots []int64 // a power of two of them, or none
	head  int
	n     int
}

const (
	fewSlots  = 16
	manySlots = 1024 // a ring that has grown past this is let go when it is empty
)

func (r *ring) slot(i int) *int64 { return &r.slots[(r.head+i)&(len(r.slots)-1)] }

func (r *ring) isOpen(i int) bool { return *r.slot(i) >= 0 }

func (r *ring) at(i int) int64 {
	v := *r.slot(i)
	return v ^ v>>63
}

func (r *ring) push(offset int64) {
	if r.n == len(r.slots) {
		r.grow()
	}
	r.n++
	*r.slot(r.n - 1) = offset
}

func (r *ring) close(i int) {
	s := r.slot(i)
	*s = ^*s
}

func (r *ring) isFirst(offset int64) bool { return r.n > 0 && r.slots[r.head] == offset }

// pop drops the first offset, and those after it up to one that is open.
func (r *ring) pop() {
	mask := len(r.slots) - 1
	r.head = (r.head + 1) & mask
	r.n--
	for r.n > 0 && r.slots[r.head] < 0 {
		r.head = (r.head + 1) & mask
		r.n--
	}
	if r.n == 0 && len(r.slots) > manySlots {
		*r = ring{}
	}
}

func (r *ring) grow() {
	slots := make([]int64, max(fewSlots, 2*len(r.slots)))
	copied := copy(slots, r.slots[r.head:])
	copy(slots[copied:], r.slots[:r.head])
	r.slots, r.head = slots, 0
}

// find is the place of an offset, or -1. Offsets ascend by at least one, so that an offset stands at its distance from the first, or before.
func (r *ring) find(offset int64) int {
	if r.n == 0 {
		return -1
	}
	distance := offset - r.at(0)
	if distance < 0 {
		return -1
	}
	high := int(min(distance, int64(r.n-1)))
	if r.at(high) == offset {
		return high
	}
	low, high := r.around(offset, distance, high)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if r.at(middle) < offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if r.at(low) != offset {
		return -1
	}
	return low
}

// around narrows down where an offset can be, up to high. Gaps are mostly of one kind, such as a marker after each transaction: it should be
// near its share of the way.
func (r *ring) around(offset, distance int64, high int) (low, most int) {
	const near = 8
	last := r.at(r.n - 1)
	if distance > last-r.at(0) {
		return high, high
	}
	guess := int(float64(distance) / float64(last-r.at(0)) * float64(r.n-1))
	if g := guess + near; g < high && r.at(g) >= offset {
		high = g
	}
	if g := min(guess, high) - near; g > 0 && r.at(g) <= offset {
		low = g
	}
	return low, high
}
