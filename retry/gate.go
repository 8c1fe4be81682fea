package retry

// gate is the line of the active entries of one key, in the order of their Seq. There is none for a key without an entry.
type gate struct {
	head, tail *Item
	depth      int
}

// insert puts an item at the end, or where its Seq puts it.
func (g *gate) insert(it *Item, last bool) {
	g.depth++
	switch {
	case g.head == nil:
		g.head, g.tail = it, it
		return
	case last || g.tail.Seq < it.Seq:
		g.tail.next, g.tail = it, it
		return
	case it.Seq < g.head.Seq:
		it.next, g.head = g.head, it
		return
	}
	ahead := g.head
	for ahead.next.Seq < it.Seq {
		ahead = ahead.next
	}
	it.next, ahead.next = ahead.next, it
}

func (g *gate) remove(it *Item) {
	g.depth--
	if g.head == it {
		if g.head = it.next; g.head == nil {
			g.tail = nil
		}
		it.next = nil
		return
	}
	ahead := g.head
	for ahead.next != it {
		ahead = ahead.next
	}
	if ahead.next = it.next; it.next == nil {
		g.tail = ahead
	}
	it.next = nil
}

// depths counts the gates of each depth, so that the deepest is known without looking at all of them.
type depths []int

// changed notes that a gate has now got another depth: one more, or one less.
func (d *depths) changed(from, to int) {
	for len(*d) <= max(from, to) {
		*d = append(*d, 0)
	}
	if from > 0 {
		(*d)[from]--
	}
	if to > 0 {
		(*d)[to]++
	}
	for n := len(*d) - 1; n >= 0 && (*d)[n] == 0; n-- {
		*d = (*d)[:n]
	}
}

func (d depths) deepest() int { return max(0, len(d)-1) }
