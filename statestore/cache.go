package statestore

// cleanList is the queue of clean entries, oldest first, for eviction with a second chance.
type cleanList struct {
	head, tail uint32
	n, bytes   int
}

func (l *cleanList) push(entries []entry, id uint32, cost int) {
	e := &entries[id]
	e.prev, e.next = l.tail, 0
	if l.tail != 0 {
		entries[l.tail].next = id
	} else {
		l.head = id
	}
	l.tail = id
	l.n++
	l.bytes += cost
}

func (l *cleanList) remove(entries []entry, id uint32, cost int) {
	e := &entries[id]
	if e.prev != 0 {
		entries[e.prev].next = e.next
	} else {
		l.head = e.next
	}
	if e.next != 0 {
		entries[e.next].prev = e.prev
	} else {
		l.tail = e.prev
	}
	e.prev, e.next = 0, 0
	l.n--
	l.bytes -= cost
}

// costOf returns the memory of a clean entry.
func (o *Overlay) costOf(id uint32) int {
	e := &o.entries[id]
	return entryBytes + o.arena.cost(&e.key) + o.arena.cost(&e.cur)
}

// readsPerEpoch bounds how many rows of base a unit that only reads can hold on to.
const readsPerEpoch = 1024

// nextEpoch notes that the rows returned so far are no longer valid.
func (o *Overlay) nextEpoch() {
	o.epoch += 2 // the rows of this epoch and of the one before are spared between reads
	o.misses = 0
}

// trim evicts clean entries until they are within CacheBytes. Rows that were returned may lose their bytes.
func (o *Overlay) trim() {
	for o.clean.bytes > o.cacheBytes {
		o.evictOne(false)
	}
}

// trimBetweenReads is trim for a run of reads: it spares what was read since the last Begin or commit call, or at least the last
// readsPerEpoch rows read from base, whose bytes somebody may still hold. It gives up after a few entries.
func (o *Overlay) trimBetweenReads() {
	if o.misses++; o.misses == readsPerEpoch {
		o.epoch++
		o.misses = 0
	}
	for steps := 0; steps < 8 && o.clean.bytes > o.cacheBytes; steps++ {
		o.evictOne(true)
	}
}

// evictOne takes the oldest clean entry and evicts it, or sends it to the back of the queue if it has been read meanwhile.
func (o *Overlay) evictOne(spareRead bool) {
	id := o.clean.head
	e := &o.entries[id]
	cost := o.costOf(id)
	o.clean.remove(o.entries, id, cost)
	if e.flags&recent != 0 || spareRead && o.epoch-e.epoch <= 1 {
		e.flags &^= recent
		o.clean.push(o.entries, id, cost)
		return
	}
	o.remove(id)
}
