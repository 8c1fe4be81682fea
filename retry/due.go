package retry

// heap has the items that wait for their time, the first by (due, seq) at its root. Each node has four children, which lie together, and the
// order is in the slots themselves: so that few lines of memory are read on the way.
type heap []slot

type slot struct {
	due int64
	seq uint64
	it  *Item
}

const arity = 4

func (a *slot) before(b *slot) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }

func (h *heap) push(it *Item) {
	*h = append(*h, slot{})
	h.up(len(*h)-1, slot{due: it.Due, seq: it.Seq, it: it})
}

// remove takes an item out, if it is there.
func (h *heap) remove(it *Item) {
	if it.place == none {
		return
	}
	i := int(it.place)
	it.place = none
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = slot{}
	*h = (*h)[:last]
	switch {
	case i == last:
	case i > 0 && s.before(&(*h)[(i-1)/arity]):
		h.up(i, s)
	default:
		h.down(i, s)
	}
}

// up puts s at i or nearer to the root.
func (h *heap) up(i int, s slot) {
	for i > 0 {
		parent := (i - 1) / arity
		if !s.before(&(*h)[parent]) {
			break
		}
		h.set(i, (*h)[parent])
		i = parent
	}
	h.set(i, s)
}

// down puts s at i or further from the root.
func (h *heap) down(i int, s slot) {
	for {
		least := arity*i + 1
		if least >= len(*h) {
			break
		}
		for c := least + 1; c < min(arity*i+1+arity, len(*h)); c++ {
			if (*h)[c].before(&(*h)[least]) {
				least = c
			}
		}
		if !(*h)[least].before(&s) {
			break
		}
		h.set(i, (*h)[least])
		i = least
	}
	h.set(i, s)
}

func (h *heap) set(i int, s slot) {
	(*h)[i] = s
	s.it.place = int32(i)
}

// until counts the items at i and below it that are due by now.
func (h heap) until(now int64, i int) int {
	if i >= len(h) || h[i].due > now {
		return 0
	}
	n := 1
	for c := arity*i + 1; c <= arity*i+arity; c++ {
		n += h.until(now, c)
	}
	return n
}
