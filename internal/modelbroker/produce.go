package modelbroker

import (
	"math"
	"slices"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// producer is what a partition knows of an idempotent producer.
type producer struct {
	epoch int16
	last  []appended // the last five batches of the epoch
}

type appended struct {
	first, last int32 // sequences
	offset      int64
}

const remembered = 5

// Clone returns the request with bytes of its own, for a request that travels longer than its records are lent.
func (r ProduceRequest) Clone() ProduceRequest {
	r.Batches = slices.Clone(r.Batches)
	size := 0
	for i := range r.Batches {
		for _, o := range r.Batches[i].Records {
			size += len(o.Key) + len(o.Value)
			for _, h := range o.Headers {
				size += len(h.Value)
			}
		}
	}
	memory := make([]byte, 0, size)
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		memory = append(memory, b...)
		return memory[len(memory)-len(b) : len(memory) : len(memory)]
	}
	for i := range r.Batches {
		out := slices.Clone(r.Batches[i].Records)
		for j := range out {
			o := &out[j]
			o.Key, o.Value, o.Headers = own(o.Key), own(o.Value), slices.Clone(o.Headers)
			for k := range o.Headers {
				o.Headers[k].Value = own(o.Headers[k].Value)
			}
		}
		r.Batches[i].Records = out
	}
	return r
}

func (b *Broker) produce(node int32, r ProduceRequest) Response {
	resp := ProduceResponse{Parts: make([]ProducedPart, len(r.Batches))}
	for i, in := range r.Batches {
		out := &resp.Parts[i]
		*out = ProducedPart{TopicPartition: in.TopicPartition, BaseOffset: -1}
		p, code := b.partition(in.TopicPartition)
		if code == kcode.None {
			code = b.leads(p, node)
		}
		if code == kcode.None {
			code = b.appendBatch(p, in, out)
		}
		out.Code = code
	}
	for i := range r.Batches {
		if p, code := b.partition(r.Batches[i].TopicPartition); code == kcode.None {
			b.wakeFetches(p)
		}
	}
	return resp
}

// leads says whether the node answers as the leader of the partition.
func (b *Broker) leads(p *partition, node int32) kcode.Code {
	if code := p.check(node, noCheck, true); code != kcode.None {
		return code
	}
	if b.now.Before(p.settled) {
		return kcode.NotLeaderOrFollower
	}
	return kcode.None
}

func (b *Broker) appendBatch(p *partition, in ProduceBatch, out *ProducedPart) kcode.Code {
	if len(in.Records) == 0 {
		return kcode.InvalidRecord
	}
	bytes := outBytes(in.Records)
	if bytes > p.topic.maxBytes {
		return kcode.MessageTooLarge
	}
	var code kcode.Code
	if code, out.BadRecords = p.topic.validate(in.Records, b.now.UnixMilli()); code != kcode.None {
		return code
	}
	if in.ProducerID >= 0 {
		at, code := p.admit(in)
		if code != kcode.None || at >= 0 {
			out.BaseOffset = at
			return code
		}
	}
	stamp := int64(-1)
	if p.topic.appendTime {
		stamp = b.now.UnixMilli()
	}
	out.BaseOffset = p.append(in, bytes, stamp, b.cfg.Lends)
	if in.ProducerID >= 0 {
		p.remember(in, out.BaseOffset)
	}
	return kcode.None
}

// validate finds the records that make the whole batch fail.
func (t *topic) validate(records []task.OutRecord, now int64) (kcode.Code, []int) {
	var bad []int
	if t.compact {
		for i, r := range records {
			if r.Key == nil {
				bad = append(bad, i)
			}
		}
		if bad != nil {
			return kcode.InvalidRecord, bad
		}
	}
	if t.appendTime {
		return kcode.None, nil
	}
	for i, r := range records {
		if r.Timestamp < -1 || r.Timestamp > now && r.Timestamp-now > t.aheadMax.Milliseconds() {
			bad = append(bad, i)
		}
	}
	if bad != nil {
		return kcode.InvalidTimestamp, bad
	}
	return kcode.None, nil
}

// admit checks epoch and sequence. It returns the offset of a batch that is here already, -1 if it is to be appended.
func (p *partition) admit(in ProduceBatch) (int64, kcode.Code) {
	w := p.producers[in.ProducerID]
	if w == nil {
		return -1, kcode.None
	}
	if in.Epoch == w.epoch {
		for _, a := range w.last {
			if a.first == in.FirstSequence && a.last == lastSequence(in) {
				return a.offset, kcode.None
			}
		}
	}
	next := int32(0)
	if in.Epoch == w.epoch {
		next = sequenceAfter(w.last[len(w.last)-1].last, 1)
	}
	switch {
	case in.Epoch < w.epoch:
		return -1, kcode.InvalidProducerEpoch
	case in.FirstSequence != next:
		return -1, kcode.OutOfOrderSequence
	}
	return -1, kcode.None
}

func (p *partition) remember(in ProduceBatch, offset int64) {
	w := p.producers[in.ProducerID]
	if w == nil || w.epoch != in.Epoch {
		w = &producer{epoch: in.Epoch}
		p.producers[in.ProducerID] = w
	}
	w.last = append(w.last, appended{first: in.FirstSequence, last: lastSequence(in), offset: offset})
	if len(w.last) > remembered {
		w.last = slices.Delete(w.last, 0, 1)
	}
}

func lastSequence(in ProduceBatch) int32 { return sequenceAfter(in.FirstSequence, len(in.Records)-1) }

// sequenceAfter counts on from a sequence number; after the largest comes 0.
func sequenceAfter(s int32, n int) int32 {
	return int32((int64(s) + int64(n)) % (math.MaxInt32 + 1))
}
