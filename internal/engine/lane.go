package engine

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/task"
)

const unknownLeader = int32(-1)

// ownerKey names one life of a task: the same task under another assignment epoch is another owner.
type ownerKey struct {
	task  task.ID
	epoch uint64
}

// owner follows which effects of one life of a task are acknowledged.
type owner struct {
	key     ownerKey
	open    []openEffects // handed over and not acknowledged as a prefix, in order of Seq
	acked   uint64
	told    uint64
	offsets []GroupOffset
	gone    bool
	failed  bool
}

type openEffects struct {
	seq  uint64
	left int // pieces not acknowledged
}

func (o *owner) add(e *task.Effects) {
	n := 0
	for i := range e.Groups {
		if len(e.Groups[i].Refs) > 0 {
			n++
		}
	}
	o.open = append(o.open, openEffects{seq: e.Seq, left: n})
	o.advance()
}

func (o *owner) advance() {
	n := 0
	for n < len(o.open) && o.open[n].left == 0 {
		o.acked = o.open[n].seq
		n++
	}
	o.open = append(o.open[:0], o.open[n:]...)
}

// ack counts pieces of the effects seq: positive when acknowledged, negative when a piece was split in more.
func (o *owner) ack(seq uint64, n int) {
	for i := range o.open {
		if o.open[i].seq == seq {
			o.open[i].left -= n
			break
		}
	}
	o.advance()
}

// piece is a group, or a part of one, waiting to be sent.
type piece struct {
	owner *owner
	seq   uint64
	group task.Group
}

// batch is what is, or was last, on the way of a lane.
type batch struct {
	pieces  []piece
	groups  []*task.Group
	records int
	bytes   int
	by      writer // that it was last sent under
	onWay   bool
	doubt   bool // it may have been appended, nobody knows
}

// lane is the way to one partition.
type lane struct {
	to      task.TopicPartition
	leader  int32
	queue   []piece
	bytes   int       // of the queue
	since   time.Time // when the oldest piece of the queue came
	sent    *batch    // on the way, or to be sent again
	spare   *batch    // the last one, to be used again
	seq     int32     // of the next new batch, or of the one in sent
	retryAt time.Time
	tries   int
	missing time.Time // since when metadata does not have the partition
	tenure  *tenure   // of the task whose changelog this is; nil elsewhere
	plain   writer    // the last one it had that is not a tenure's
	busy    bool
}

func (l *lane) push(p piece, now time.Time) {
	if len(l.queue) == 0 {
		l.since = now
	}
	l.queue = append(l.queue, p)
	l.bytes += p.group.Bytes
}

// next is the size of the batch that take would make, in bytes, or a little more.
func (l *lane) next(limit int) int {
	if l.sent != nil {
		return l.sent.bytes
	}
	return min(l.bytes, max(limit, int(l.queue[0].group.Refs[0].Bytes)))
}

// take makes a batch of at most limit bytes, or gives the one that has to be sent again.
func (l *lane) take(limit int) *batch {
	if l.sent != nil {
		return l.sent
	}
	b := l.spare
	if b == nil {
		b = &batch{}
	}
	l.spare = nil
	b.pieces, b.groups, b.records, b.bytes, b.onWay, b.doubt = b.pieces[:0], b.groups[:0], 0, 0, false, false
	n := 0
	for n < len(l.queue) {
		p := &l.queue[n]
		if room := limit - b.bytes; p.group.Bytes > room {
			if head, ok := split(p, room, len(b.pieces) == 0); ok {
				l.bytes -= head.group.Bytes
				b.add(head)
				if len(p.group.Refs) == 0 {
					n++ // one record that is larger than a batch may be: nothing is left of the piece
				}
			}
			break
		}
		l.bytes -= p.group.Bytes
		b.add(*p)
		n++
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	for i := range b.pieces {
		b.groups = append(b.groups, &b.pieces[i].group)
	}
	l.sent = b
	return b
}

func (b *batch) add(p piece) {
	b.pieces = append(b.pieces, p)
	b.records += len(p.group.Refs)
	b.bytes += p.group.Bytes
}

// split cuts as many records off the head of p as fit into room, at least one if must. It reports false if nothing was cut.
func split(p *piece, room int, must bool) (head piece, ok bool) {
	n, size := 0, 0
	for n < len(p.group.Refs) {
		s := int(p.group.Refs[n].Bytes)
		if size+s > room && (n > 0 || !must) {
			break
		}
		size += s
		n++
		if size > room {
			break
		}
	}
	if n == 0 {
		return piece{}, false
	}
	head = *p
	head.group.Refs = p.group.Refs[:n]
	p.group.Refs = p.group.Refs[n:]
	if len(p.group.Refs) == 0 {
		return head, true
	}
	head.group.Bytes = size
	p.group.Bytes -= size
	p.owner.ack(p.seq, -1) // one piece more to be acknowledged
	return head, true
}

// done ends the batch on the way: the next one has the sequence that follows, unless its writer is another.
func (l *lane) done(next writer) {
	if l.sent.by == next {
		l.seq = nextSequence(l.seq, l.sent.records)
	}
	clear(l.sent.pieces) // their task may be over, and this lane idle for ever
	clear(l.sent.groups)
	l.spare, l.sent = l.sent, nil
	l.tries, l.retryAt, l.missing = 0, time.Time{}, time.Time{}
}

// drop gives the batch up that is, or was last, on the way.
func (l *lane) drop() {
	l.spare, l.sent = nil, nil
	l.tries, l.retryAt, l.missing = 0, time.Time{}, time.Time{}
}

// nextSequence wraps as Kafka's does: after 2^31-1 comes 0.
func nextSequence(seq int32, records int) int32 {
	return int32((int64(seq) + int64(records)) & 0x7fffffff)
}

// requeue puts the pieces of the batch that was on the way back to the head of the queue, but for those that nobody waits for any more.
func (l *lane) requeue() {
	pieces := slices.DeleteFunc(l.sent.pieces, func(p piece) bool { return p.owner.gone })
	for i := range pieces {
		l.bytes += pieces[i].group.Bytes
	}
	l.queue = append(pieces[:len(pieces):len(pieces)], l.queue...)
	l.sent = nil
}

// forget removes what an owner has queued. A batch that may have been appended stays as it is: its sequence is used.
func (l *lane) forget(o *owner) {
	kept := l.queue[:0]
	for _, p := range l.queue {
		if p.owner == o {
			l.bytes -= p.group.Bytes
		} else {
			kept = append(kept, p)
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
}

func (l *lane) reset() {
	clear(l.queue)
	l.queue, l.bytes, l.sent, l.seq = l.queue[:0], 0, nil, 0
	l.tries, l.retryAt, l.missing, l.busy, l.tenure = 0, time.Time{}, time.Time{}, false, nil
}
