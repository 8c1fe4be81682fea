package modelbroker

import (
	"math"
	"slices"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// parkedFetch is a long poll that waits for data.
type parkedFetch struct {
	ticket  *ticket
	node    int32
	req     FetchRequest
	unknown []bool // parts that were unknown when it came: they do not end the wait
	timeout *timer
}

func (b *Broker) fetch(node int32, t *ticket, r FetchRequest) Response {
	f := &parkedFetch{ticket: t, node: node, req: r, unknown: make([]bool, len(r.Parts))}
	known := 0
	for i, part := range r.Parts {
		if _, code := b.partition(part.TopicPartition); code == kcode.None {
			known++
		} else {
			f.unknown[i] = true
		}
	}
	if known == 0 || r.MaxWait <= 0 || b.ripe(f) {
		return b.read(f)
	}
	f.timeout = b.after(r.MaxWait, func() { b.completeFetch(f) })
	b.fetches = append(b.fetches, f)
	return nil
}

func (b *Broker) completeFetch(f *parkedFetch) {
	f.timeout.stop()
	b.fetches = slices.DeleteFunc(b.fetches, func(o *parkedFetch) bool { return o == f })
	b.answer(f.ticket, b.read(f))
}

// wakeFetches answers the polls that are ripe now that something happened to the partition.
func (b *Broker) wakeFetches(tp task.TopicPartition) {
	for _, f := range slices.Clone(b.fetches) {
		if !f.ticket.conn.open {
			f.timeout.stop()
			b.fetches = slices.DeleteFunc(b.fetches, func(o *parkedFetch) bool { return o == f })
			continue
		}
		asks := slices.ContainsFunc(f.req.Parts, func(p FetchPart) bool { return p.TopicPartition == tp })
		if asks && b.ripe(f) {
			b.completeFetch(f)
		}
	}
}

// ripe says whether a poll is to be answered now: an error, a position beyond the last stable offset, or enough bytes.
func (b *Broker) ripe(f *parkedFetch) bool {
	bytes := 0
	for i, part := range f.req.Parts {
		if f.unknown[i] {
			continue
		}
		p, code := b.readable(f.node, part)
		if code != kcode.None {
			return true
		}
		limit := p.limit(f.req.ReadCommitted)
		if part.Offset > limit {
			return true
		}
		_, n := p.run(part.Offset, limit, partBytes(part), true)
		bytes += n
	}
	return bytes >= int(f.req.MinBytes)
}

func (b *Broker) readable(node int32, part FetchPart) (*partition, kcode.Code) {
	p, code := b.partition(part.TopicPartition)
	if code == kcode.None {
		code = p.check(node, part.LeaderEpoch, false)
	}
	if code == kcode.None && (part.Offset < p.start || part.Offset > p.end) {
		code = kcode.OffsetOutOfRange
	}
	return p, code
}

func (p *partition) limit(readCommitted bool) int64 {
	if readCommitted {
		return p.stable()
	}
	return p.end
}

func partBytes(part FetchPart) int {
	if part.MaxBytes <= 0 {
		return math.MaxInt
	}
	return int(part.MaxBytes)
}

// read makes the answer. The first batch of the first partition that has one comes whole, whatever its size.
func (b *Broker) read(f *parkedFetch) Response {
	left := math.MaxInt
	if f.req.MaxBytes > 0 {
		left = int(f.req.MaxBytes)
	}
	resp := FetchResponse{Parts: make([]FetchedPart, len(f.req.Parts))}
	some := false
	for i, part := range f.req.Parts {
		out := &resp.Parts[i]
		*out = FetchedPart{TopicPartition: part.TopicPartition, Next: part.Offset, HighWatermark: -1, LastStable: -1, LogStart: -1}
		p, code := b.readable(f.node, part)
		if f.unknown[i] {
			code = kcode.UnknownTopicOrPartition
		}
		if out.Code = code; code != kcode.None {
			continue
		}
		out.HighWatermark, out.LastStable, out.LogStart = p.end, p.stable(), p.start
		run, n := p.run(part.Offset, p.limit(f.req.ReadCommitted), min(left, partBytes(part)), !some)
		some = some || n > 0
		left = max(0, left-n)
		out.fill(run, n)
	}
	return resp
}

func (out *FetchedPart) fill(run []*batch, bytes int) {
	for _, b := range run {
		for _, r := range b.records {
			out.Records = append(out.Records, copyRecord(r))
		}
		out.Next = b.last + 1
	}
	out.Bytes = bytes
}
