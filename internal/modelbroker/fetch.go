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
	parts   []*partition // nil for those that were unknown when it came: they do not end the wait
	timeout *timer
}

func (b *Broker) fetch(node int32, t *ticket, r FetchRequest) Response {
	f := &parkedFetch{ticket: t, node: node, req: r, parts: make([]*partition, len(r.Parts))}
	known := 0
	for i := range r.Parts {
		if p, code := b.partition(r.Parts[i].TopicPartition); code == kcode.None {
			f.parts[i] = p
			known++
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
	b.unpark(slices.Index(b.fetches, f))
	b.answer(f.ticket, b.read(f))
}

func (b *Broker) unpark(i int) {
	b.fetches[i].timeout.stop()
	b.fetches = slices.Delete(b.fetches, i, i+1)
}

// wakeFetches answers the polls that are ripe now that something happened to the partition.
func (b *Broker) wakeFetches(p *partition) {
	for i := 0; i < len(b.fetches); {
		f := b.fetches[i]
		switch {
		case !f.ticket.conn.open:
			b.unpark(i)
		case slices.Contains(f.parts, p) && b.ripe(f):
			b.unpark(i)
			b.answer(f.ticket, b.read(f))
		default:
			i++
		}
	}
}

// ripe says whether a poll is to be answered now: an error, a position beyond the last stable offset, or enough bytes.
func (b *Broker) ripe(f *parkedFetch) bool {
	bytes := 0
	for i := range f.req.Parts {
		if f.parts[i] == nil {
			continue
		}
		part := &f.req.Parts[i]
		p, code := b.readable(f, i)
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

// readable is the partition of a part that was known when the poll came, and what keeps it from being read.
func (b *Broker) readable(f *parkedFetch, i int) (*partition, kcode.Code) {
	part, p, code := &f.req.Parts[i], f.parts[i], kcode.None
	if p.gone { // deleted since, or made anew
		if p, code = b.partition(part.TopicPartition); code == kcode.None {
			f.parts[i] = p
		}
	}
	if code == kcode.None {
		code = p.check(f.node, part.LeaderEpoch, false)
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

func partBytes(part *FetchPart) int {
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
	for i := range f.req.Parts {
		part, out := &f.req.Parts[i], &resp.Parts[i]
		*out = FetchedPart{TopicPartition: part.TopicPartition, Next: part.Offset, HighWatermark: -1, LastStable: -1, LogStart: -1}
		p, code := f.parts[i], kcode.UnknownTopicOrPartition
		if p != nil {
			p, code = b.readable(f, i)
		}
		if out.Code = code; code != kcode.None {
			continue
		}
		out.HighWatermark, out.LastStable, out.LogStart = p.end, p.stable(), p.start
		run, n := p.run(part.Offset, p.limit(f.req.ReadCommitted), min(left, partBytes(part)), !some)
		some = some || n > 0
		left = max(0, left-n)
		out.fill(run, n, b.cfg.Lends)
	}
	return resp
}

func (out *FetchedPart) fill(run []*batch, bytes int, lends bool) {
	out.Bytes = bytes
	if len(run) == 0 {
		return
	}
	out.Next = run[len(run)-1].last + 1
	n := 0
	for _, b := range run {
		n += len(b.records)
	}
	if n == 0 {
		return
	}
	out.Records = make([]task.Record, 0, n)
	for _, b := range run {
		out.Records = append(out.Records, b.records...)
	}
	if !lends {
		for i := range out.Records {
			out.Records[i] = copyRecord(out.Records[i])
		}
	}
}
