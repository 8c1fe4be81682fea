package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// begins finds out where partitions begin.
type begins struct {
	fetching, listing   uint64 // requests that are out
	fetchedAt, listedAt time.Time
	fetchTries          int
	listTries           int
	refused             bool // the user's store has failed: it is asked again with the next Poll
}

// askBegins asks for what partitions need to begin.
func (m *Machine) askBegins() {
	b := &m.begins
	var committed, load []task.TopicPartition
	var asks []Ask
	for _, p := range m.order {
		if p.asked != 0 || p.phase != held {
			continue
		}
		switch {
		case p.want == wantCommitted && m.cfg.Own:
			load = append(load, p.tp)
		case p.want == wantCommitted:
			committed = append(committed, p.tp)
		case p.want == wantListed:
			asks = append(asks, Ask{p.tp, p.start})
		case p.want == wantEnd:
			asks = append(asks, Ask{p.tp, Start{At: Latest}})
		case p.want == wantBounds:
			asks = append(asks, Ask{p.tp, Start{At: Earliest}}, Ask{p.tp, Start{At: Latest}})
		case p.gap != nil && p.gap.lost && len(p.gap.batches) == 0 && b.listing == 0: // what is held of it comes first
			asks = append(asks, Ask{p.tp, Start{At: Earliest}}, Ask{p.tp, Start{At: Latest}})
		}
	}
	if len(load) > 0 && !m.loading && !b.refused {
		m.loading = true
		m.mark(load, m.request())
		m.tell(TellLoad{Request: m.requests, Parts: load})
	}
	if len(committed) > 0 && b.fetching == 0 && m.after(b.fetchedAt) && m.hasCoordinator() {
		b.fetching = m.request()
		m.mark(committed, b.fetching)
		m.do(FetchOffsets{Request: b.fetching, Coordinator: m.member.addr, Parts: committed})
	}
	if len(asks) > 0 && b.listing == 0 && m.after(b.listedAt) {
		b.listing = m.request()
		for _, a := range asks {
			if p := m.parts[a.TopicPartition]; p.want != nothing {
				p.asked = b.listing
			} else {
				p.gap.asking = b.listing
			}
		}
		m.do(ListOffsets{Request: b.listing, Asks: asks})
	}
}

// after says whether a time has come, and asks to be woken then.
func (m *Machine) after(at time.Time) bool {
	if m.now.Before(at) {
		m.wakeAt(at)
		return false
	}
	return true
}

func (m *Machine) mark(tps []task.TopicPartition, request uint64) {
	for _, tp := range tps {
		m.parts[tp].asked = request
	}
}

// asked are the parts that a request was made for and that still want its answer.
func (m *Machine) asked(request uint64) (out []*part) {
	for _, p := range m.order {
		if p.asked == request && request != 0 {
			p.asked = 0
			out = append(out, p)
		}
	}
	return out
}

// unask lets the answers that are awaited of a part change nothing of it: a commit that they lead to would not be its owner's any more.
func (p *part) unask() {
	p.asked = 0
	if p.gap != nil {
		p.gap.asking = 0
	}
}

func (m *Machine) onFetched(ev OffsetsFetched) {
	b := &m.begins
	if ev.Request != b.fetching || ev.Request == 0 {
		return
	}
	b.fetching = 0
	again := ev.Err != nil || ev.Code != kcode.None
	for _, p := range m.asked(ev.Request) {
		o, has := ev.Offsets[p.tp]
		switch {
		case again || !has:
			again = true
		case o.Code == kcode.TopicAuthorizationFailed:
			m.stop(p, &engine.FetchError{Part: p.tp, Offset: -1, Code: o.Code})
		case o.Code != kcode.None:
			again = true
		case o.Offset >= 0:
			again = !m.found(p, o) || again
		default:
			m.nowhere(p)
		}
	}
	b.fetchTries = m.again(again, b.fetchTries, &b.fetchedAt)
	if ev.Code == kcode.GroupAuthorizationFailed {
		m.fail(refusedGroup(m.cfg.Group.Group, ev.Code))
	}
	if again {
		m.lostCoordinator(ev.Err, ev.Code)
		m.trouble("committed offsets", firstError(ev.Err, ev.Code))
	}
}

// again counts tries and puts the next one off, if it has to be made again.
func (m *Machine) again(again bool, tries int, at *time.Time) int {
	if !again {
		*at = time.Time{}
		return 0
	}
	*at = m.now.Add(m.backoff(tries))
	m.wakeAt(*at)
	return tries + 1
}

func firstError(err error, code kcode.Code) error {
	if err != nil || code == kcode.None {
		return err
	}
	return code
}

// nowhere decides where a part begins of which nothing has been committed. One that appeared while the consumer ran is read from its beginning:
// its first records were written before it could be noticed.
func (m *Machine) nowhere(p *part) {
	at := m.cfg.NoOffset
	if p.fresh && at != engine.ResetStop {
		p.anchor = at == engine.ResetLatest
		at = engine.ResetEarliest
	} else {
		p.anchor = at == engine.ResetLatest
	}
	p.anchor = p.anchor && !m.cfg.Manual && !m.cfg.Own
	switch at {
	case engine.ResetEarliest:
		p.want, p.start = wantListed, Start{At: Earliest}
	case engine.ResetLatest:
		p.want, p.start = wantListed, Start{At: Latest}
	default:
		p.want, p.position = wantBounds, -1
	}
}

func (m *Machine) onListed(ev OffsetsListed) {
	b := &m.begins
	if ev.Request != b.listing || ev.Request == 0 {
		return
	}
	b.listing = 0
	again := false
	bounds := func(p *part, then func(p *part, first, end int64)) {
		first, a := ev.Offsets[Ask{p.tp, Start{At: Earliest}}]
		end, b := ev.Offsets[Ask{p.tp, Start{At: Latest}}]
		if again = again || !a || !b; a && b {
			then(p, first, end)
		}
	}
	for _, p := range m.order {
		if g := p.gap; g != nil && g.asking == ev.Request {
			g.asking = 0
			bounds(p, m.trimmed)
		}
	}
	for _, p := range m.asked(ev.Request) {
		switch p.want {
		case wantBounds:
			bounds(p, m.outOfRange)
			continue
		case wantEnd:
			end, has := ev.Offsets[Ask{p.tp, Start{At: Latest}}]
			if again = again || !has; has {
				m.split(p, end)
			}
			continue
		}
		at, has := ev.Offsets[Ask{p.tp, p.start}]
		if again = again || !has; has {
			if p.start.At == Latest {
				p.end = at
			}
			m.place(p, at)
		}
	}
	b.listTries = m.again(again, b.listTries, &b.listedAt)
	if again {
		m.trouble("offsets of logs", ev.Err)
	}
}

// outOfRange applies the policy to a part whose offset is not in the log. It is never silent.
func (m *Machine) outOfRange(p *part, first, end int64) {
	from := p.position
	p.want = nothing
	policy := m.cfg.OutOfRange
	if from < 0 {
		policy = m.cfg.NoOffset
	}
	at := first
	switch policy {
	case engine.ResetEarliest:
	case engine.ResetLatest:
		at = end
	default:
		m.stop(p, &engine.OffsetOutOfRangeError{Part: p.tp, Offset: from, Earliest: first, End: end})
		return
	}
	m.tell(TellReset{Part: p.tp, From: from, To: at})
	m.abandonGap(p, at)
	p.position, p.next = at, at
}

// stop says that a part cannot be read on without a decision.
func (m *Machine) stop(p *part, err error) {
	m.disconnect(p)
	p.want, p.fault = nothing, err
	m.fault(err)
}

func (m *Machine) onLoaded(ev Loaded) {
	m.loading, m.begins.refused = false, ev.Err != nil
	for _, p := range m.asked(ev.Request) {
		at, has := ev.Offsets[p.tp]
		switch {
		case ev.Err != nil: // asked again with the next Poll
		case has && at >= 0:
			p.kept = at
			m.place(p, at)
		default:
			m.nowhere(p)
		}
	}
}

// hasCoordinator says whether it is known; in manual mode it is asked for.
func (m *Machine) hasCoordinator() bool {
	c := &m.member
	if !m.cfg.Manual {
		_, _, c.addr = c.machine.Membership()
		return c.addr != ""
	}
	if c.addr != "" {
		return true
	}
	if c.finding == 0 && m.after(c.findAt) {
		c.finding = m.request()
		m.do(MemberAction{group.FindCoordinator{Req: c.finding, Group: m.cfg.Group.Group}})
	}
	return false
}

// lostCoordinator lets the coordinator be looked for anew after an answer that says so.
func (m *Machine) lostCoordinator(err error, code kcode.Code) {
	if m.cfg.Manual && (err != nil || code == kcode.NotCoordinator || code == kcode.CoordinatorNotAvailable) {
		m.member.addr = ""
	}
}
