package statestore

// cleanQueue has the clean entries, oldest first, for eviction with a second chance. An entry that is written stays in it, so that nobody
// needs to look at its neighbours: what is not clean is passed over when its turn comes. No entry is in it twice.
type cleanQueue struct {
	ids      []uint32 // a ring, as long as a power of two
	head     int
	waiting  int // entries in the ring
	n, bytes int // of the clean ones
}

func (q *cleanQueue) push(id uint32) {
	if q.waiting == len(q.ids) {
		q.grow()
	}
	q.ids[(q.head+q.waiting)&(len(q.ids)-1)] = id
	q.waiting++
}

func (q *cleanQueue) grow() {
	ids := make([]uint32, max(16, 2*len(q.ids)))
	n := copy(ids, q.ids[q.head:])
	copy(ids[n:], q.ids[:q.head])
	q.ids, q.head = ids, 0
}

func (q *cleanQueue) pop() uint32 {
	id := q.ids[q.head]
	q.head = (q.head + 1) & (len(q.ids) - 1)
	q.waiting--
	return id
}

// costOf returns the memory of a clean entry.
func (o *Overlay) costOf(e *entry) int {
	return entryBytes + o.arena.cost(&e.key) + o.arena.cost(&e.cur)
}

// cache counts an entry that has become clean. One that is in the queue still is not as old as its place there says.
func (o *Overlay) cache(id uint32) {
	e := &o.entries[id]
	o.clean.n++
	o.clean.bytes += o.costOf(e)
	if e.flags&queued != 0 {
		e.flags |= recent
		return
	}
	e.flags |= queued
	o.clean.push(id)
}

// uncache is called before a clean entry changes.
func (o *Overlay) uncache(e *entry) {
	o.clean.n--
	o.clean.bytes -= o.costOf(e)
}

// readsPerEpoch bounds how many rows of base a unit that only reads can hold on to.
const readsPerEpoch = 1024

// nextEpoch notes that the rows returned so far are no longer valid.
func (o *Overlay) nextEpoch() {
	o.epoch += 2 // the rows of this epoch and of the one before are spared between reads
	o.misses = 0
}

// room is what clean entries may take.
func (o *Overlay) room() int { return max(o.cacheBytes-o.dirtyBytes-o.sealedBytes, 0) }

// trim evicts clean entries until they are within CacheBytes. Rows that were returned may lose their bytes.
func (o *Overlay) trim() {
	for room := o.room(); o.clean.bytes > room; {
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
	for steps := 0; steps < 8 && o.clean.bytes > o.room(); steps++ {
		o.evictOne(true)
	}
}

// evictOne takes the oldest clean entry and evicts it, or sends it to the back of the queue if it has been read meanwhile. There must be one.
func (o *Overlay) evictOne(spareRead bool) {
	for {
		id := o.clean.pop()
		e := &o.entries[id]
		e.flags &^= queued
		switch {
		case e.flags&known == 0 || e.flags&(dirty|lingering) != 0:
			continue // gone, or written meanwhile
		case e.flags&recent != 0 || spareRead && o.epoch-e.epoch <= 1:
			e.flags = e.flags&^recent | queued
			o.clean.push(id)
		default:
			o.uncache(e)
			o.remove(id)
		}
		return
	}
}
