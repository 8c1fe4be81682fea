package modelbroker

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// partition is a partition with its log, which is the same on all its replicas at any time.
type partition struct {
	topic     *topic
	tp        task.TopicPartition
	replicas  []int32
	leader    int32
	epoch     int32
	settled   time.Time // from when on the leader answers Produce and ListOffsets
	batches   []*batch
	start     int64
	end       int64 // the high watermark too
	open      int64 // where the open transaction begins, -1 without one
	segment   int   // the active one
	gone      bool  // its topic was deleted
	producers map[int64]*producer
}

// batch is one record batch. It covers base to last even where compaction has taken records out of it; a control batch delivers none.
type batch struct {
	base, last int64
	records    []task.Record
	bytes      int
	segment    int
	control    bool
	producerID int64
}

const (
	batchOverhead = 61 // the header of a batch of format 2
	controlBytes  = batchOverhead + 17
)

func (p *partition) stable() int64 {
	if p.open >= 0 {
		return p.open
	}
	return p.end
}

// check says whether the node may serve the partition to one that knows the leader epoch. Only a read without a leader's promise is served
// by any replica.
func (p *partition) check(node, epoch int32, leaderOnly bool) kcode.Code {
	switch {
	case !slices.Contains(p.replicas, node):
		return kcode.NotLeaderOrFollower
	case epoch != noCheck && epoch < p.epoch:
		return kcode.FencedLeaderEpoch
	case epoch > p.epoch:
		return kcode.UnknownLeaderEpoch
	case leaderOnly && p.leader != node:
		return kcode.NotLeaderOrFollower
	}
	return kcode.None
}

// append adds a batch of the records, or of copies of them, at the end and returns its first offset.
func (p *partition) append(in ProduceBatch, bytes int, stamp int64, lent bool) int64 {
	recs := make([]task.Record, len(in.Records))
	for i, r := range in.Records {
		recs[i] = task.Record{Offset: p.end + int64(i), Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: r.Headers}
		if !lent {
			recs[i] = copyRecord(recs[i])
		}
		if stamp >= 0 {
			recs[i].Timestamp = stamp
		}
	}
	b := &batch{
		base: p.end, last: p.end + int64(len(recs)) - 1, records: recs, bytes: bytes, segment: p.segment, producerID: in.ProducerID,
	}
	p.batches = append(p.batches, b)
	p.end = b.last + 1
	return b.base
}

// appendControl adds a transaction marker: it takes an offset and delivers no record.
func (p *partition) appendControl() {
	p.batches = append(p.batches, &batch{base: p.end, last: p.end, bytes: controlBytes, segment: p.segment, control: true, producerID: -1})
	p.end++
}

// run returns the batches that an answer holds: from the one that offset lies in or comes before, below limit, within one segment and within
// the bytes; always a whole first batch if atLeastOne.
func (p *partition) run(offset, limit int64, maxBytes int, atLeastOne bool) (run []*batch, bytes int) {
	i, _ := slices.BinarySearchFunc(p.batches, offset, func(b *batch, o int64) int { return int(b.last - o) })
	n := i
	for ; n < len(p.batches); n++ {
		b := p.batches[n]
		if b.base >= limit || b.segment != p.batches[i].segment || bytes+b.bytes > maxBytes && !(atLeastOne && n == i) {
			break
		}
		bytes += b.bytes
	}
	return p.batches[i:n], bytes
}

// trim moves the start of the log; a batch that reaches beyond it stays whole.
func (p *partition) trim(start int64) {
	p.start = max(p.start, start)
	p.batches = slices.DeleteFunc(p.batches, func(b *batch) bool { return b.last < p.start })
}

// compact cleans all but the last batch, which is in the active segment, and what an open transaction may still undo: of each key the last
// record in the cleaned part stays. The start of the log stays where it is. A batch that is emptied goes away unless it is the last of its
// producer, whose sequence it remembers.
func (p *partition) compact(tombstones bool) {
	n := p.cleanable()
	cleaned, active := p.batches[:n], p.batches[n:]
	last := map[string]int64{}
	for _, b := range cleaned {
		for _, r := range b.records {
			last[string(r.Key)] = r.Offset
		}
	}
	for _, b := range cleaned {
		b.records = slices.DeleteFunc(b.records, func(r task.Record) bool {
			return last[string(r.Key)] != r.Offset || tombstones && r.Value == nil
		})
		if !b.control {
			b.bytes = batchBytes(b.records)
		}
		b.segment = p.segment
	}
	p.segment++
	for _, b := range active {
		b.segment = p.segment
	}
	cleaned = slices.DeleteFunc(slices.Clone(cleaned), func(b *batch) bool { return len(b.records) == 0 && !p.remembers(b) })
	p.batches = append(cleaned, active...)
}

// cleanable is the number of batches that compaction looks at.
func (p *partition) cleanable() int {
	n := slices.IndexFunc(p.batches, func(b *batch) bool { return b.last >= p.stable() })
	if n < 0 {
		n = len(p.batches)
	}
	return min(n, max(0, len(p.batches)-1))
}

// remembers says whether an emptied batch stays: transaction markers do, and what the producers' sequences are rebuilt from.
func (p *partition) remembers(b *batch) bool {
	if b.control {
		return true
	}
	w := p.producers[b.producerID]
	return w != nil && len(w.last) > 0 && w.last[len(w.last)-1].offset == b.base
}

func copyRecord(r task.Record) task.Record {
	r.Key, r.Value, r.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = slices.Clone(r.Headers[i].Value)
	}
	return r
}
