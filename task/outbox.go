package task

import (
	"time"

	"github.com/understudy-streams/understudy/statestore"
)

const effectsTarget = 64 << 10 // effects are handed over when they are this large

// destination is a topic that the task sends to.
type destination struct {
	Dest
	limits     Limits
	refused    []*Refusal
	partitions int32 // 0 = not known yet
	plain      plain
	slots      []slot
}

// slot remembers the group of one partition in the effects that are being filled.
type slot struct {
	fill  uint64
	group int32
}

// outbox collects what the task sends, hands it over in order and gets the memory back when it is acknowledged.
type outbox struct {
	id    ID
	epoch uint64

	dests   []destination
	active  *Effects
	fill    uint64  // number of the effects being filled, for the slots
	journal []int32 // groups of the records of the running unit
	since   int64   // ms, when the active effects got their first record
	room    int     // what Tail provides; learns from records that outgrew it

	seq      uint64 // of the last effects cut
	ready    []*Effects
	inflight []*Effects // cut and not acknowledged, by sequence
	oldest   uint64     // the sequence of inflight[0]
	unacked  int        // bytes cut and not acknowledged
	peak     int        // most effects in flight since the last trim
	free     []*Effects
}

func newOutbox(id ID, epoch uint64) *outbox {
	return &outbox{id: id, epoch: epoch, active: &Effects{}, fill: 1, oldest: 1, room: minRoom}
}

func (o *outbox) tail() []byte { return o.active.tail(o.room) }

// learn makes the tail roomy enough for records of n bytes.
func (o *outbox) learn(n int) {
	if 2*n > o.room {
		o.room = min(2*n, chunkBytes/2)
	}
}

// slot returns the group of a partition in the active effects.
func (o *outbox) slot(d *destination, partition int32) int32 {
	if int(partition) >= len(d.slots) {
		grown := make([]slot, max(int(partition)+1, int(d.partitions)))
		copy(grown, d.slots)
		d.slots = grown
	}
	s := &d.slots[partition]
	if s.fill != o.fill {
		s.fill, s.group = o.fill, o.active.group(TopicPartition{d.Topic, partition})
	}
	return s.group
}

// undo goes back to m: groups that were made since are forgotten, with the slots that remember them.
func (o *outbox) undo(m *effectsMark) {
	for i := m.groups; i < len(o.active.Groups); i++ {
		to := o.active.Groups[i].To
		for j := range o.dests {
			if d := &o.dests[j]; d.Topic == to.Topic && int(to.Partition) < len(d.slots) && int(d.slots[to.Partition].group) >= m.groups {
				d.slots[to.Partition].fill = 0
			}
		}
	}
	o.active.undo(m, o.journal)
	o.journal = o.journal[:0]
}

// add appends a record of the running unit.
func (o *outbox) add(d *destination, partition int32, r Ref, now int64) {
	o.journal = append(o.journal, o.append(d, partition, r, now))
}

// append appends a record whose bytes are in place already, and returns its group.
func (o *outbox) append(d *destination, partition int32, r Ref, now int64) int32 {
	if o.active.Bytes == 0 {
		o.since = now
	}
	var i int32
	if int(partition) < len(d.slots) && d.slots[partition].fill == o.fill {
		i = d.slots[partition].group
	} else {
		i = o.slot(d, partition)
	}
	g := &o.active.Groups[i]
	g.Refs = append(g.Refs, r)
	g.Bytes += int(r.Bytes)
	o.active.Bytes += int(r.Bytes)
	return i
}

// row appends a changelog record.
func (o *outbox) row(d *destination, partition int32, c *statestore.Change, now int64) {
	b := append(append(o.active.tail(len(c.Key)+len(c.Value)), c.Key...), c.Value...)
	o.append(d, partition, o.place(b, length(c.Key), length(c.Value), c.Timestamp, nil), now)
}

// place takes the bytes of a record into the arena, key and value, and copies its headers there.
func (o *outbox) place(b []byte, klen, vlen int, ts int64, h []Header) Ref {
	e := o.active
	if !e.extend(b) {
		e.commit(b)
	}
	r := Ref{
		Timestamp: ts, Bytes: int32(len(b) + recordOverhead), key: int32(klen), value: int32(vlen),
		chunk: int32(e.chunk), at: int32(len(e.arena[e.chunk]) - len(b)),
	}
	if len(h) > 0 {
		r.headers = o.copyHeaders(h)
		r.Bytes += int32(headerBytes(h))
	}
	return r
}

// copyHeaders copies headers into the arena and returns what Ref has of them.
func (o *outbox) copyHeaders(h []Header) int32 {
	e := o.active
	at := len(e.headers)
	for _, c := range h {
		if c.Value != nil {
			c.Value = e.commit(c.Value)
		}
		e.headers = append(e.headers, c)
	}
	e.heads = append(e.heads, e.headers[at:len(e.headers):len(e.headers)])
	return int32(len(e.heads))
}

// cut hands the active effects over, at a unit boundary.
func (o *outbox) cut() {
	e := o.active
	if len(e.Groups) == 0 {
		return
	}
	o.seq++
	e.Task, e.Epoch, e.Seq = o.id, o.epoch, o.seq
	o.ready = append(o.ready, e)
	o.inflight = append(o.inflight, e)
	o.peak = max(o.peak, len(o.inflight))
	o.unacked += e.Bytes
	o.fill++
	o.journal = o.journal[:0]
	if n := len(o.free); n > 0 {
		o.active, o.free = o.free[n-1], o.free[:n-1]
	} else {
		o.active = &Effects{}
	}
}

// take returns the next effects to hand over, nil if there are none.
func (o *outbox) take() *Effects {
	if len(o.ready) == 0 {
		return nil
	}
	e := o.ready[0]
	copy(o.ready, o.ready[1:])
	o.ready[len(o.ready)-1] = nil
	o.ready = o.ready[:len(o.ready)-1]
	return e
}

// acked takes the memory of all effects up to a sequence back. One that has not been cut is ignored.
func (o *outbox) acked(seq uint64) {
	if seq < o.oldest || seq >= o.oldest+uint64(len(o.inflight)) {
		return
	}
	n := int(seq-o.oldest) + 1
	for _, e := range o.inflight[:n] {
		o.unacked -= e.Bytes
		e.reset()
		o.free = append(o.free, e)
	}
	rest := copy(o.inflight, o.inflight[n:])
	clear(o.inflight[rest:])
	o.inflight = o.inflight[:rest]
	o.oldest += uint64(n)
}

// trim gives up memory that the traffic since the last trim did not need.
func (o *outbox) trim() {
	if len(o.free) > o.peak {
		clear(o.free[o.peak:])
		o.free = o.free[:o.peak]
	}
	o.peak = len(o.inflight)
}

// pending are the bytes of effects not acknowledged yet, handed over or not.
func (o *outbox) pending() int { return o.unacked + o.active.Bytes }

// held is what counts against the credit. Small effects take a chunk all the same, and pile up where a broker does not answer.
func (o *outbox) held() int { return o.pending() + len(o.inflight)*firstChunk }

// discard drops what was not handed over.
func (o *outbox) discard() {
	o.active.reset()
	o.fill++
	o.journal = o.journal[:0]
	for _, e := range o.ready {
		o.unacked -= e.Bytes
	}
	clear(o.ready)
	o.ready = o.ready[:0]
}

// lingers says whether the active effects are older than they may become.
func (o *outbox) lingers(now time.Time, linger time.Duration) bool {
	return len(o.active.Groups) > 0 && now.UnixMilli()-o.since >= linger.Milliseconds()
}
