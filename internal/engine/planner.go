package engine

import (
	"cmp"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// PlannerConfig holds the bounds of a Planner. Zero values are replaced by the defaults named here.
type PlannerConfig struct {
	MaxWait   time.Duration // how long the broker may park a Fetch that finds nothing; default 100 ms (fetch.max.wait.ms)
	ShortWait time.Duration // the same while a partition is left out for being full, or is asked for the first time; default 10 ms
	PartBytes int32         // of one partition in one answer, less where its consumer has less room; default 256 KiB (max.partition.fetch.bytes)
	MaxBytes  int32         // of one answer; default 8 MiB (fetch.max.bytes)
	Backoff   time.Duration // after an error; doubled up to 1 s; default 50 ms (retry.backoff.ms)
	TurnBytes int32         // as PartBytes, with Turns; default 4 MiB
	// Turns has the partitions that are known to have much to come asked for one at a time, each until it is full or half of its bound has come, and
	// not all of them a little. See For.
	Turns bool
}

func (c PlannerConfig) withDefaults() PlannerConfig {
	c.MaxWait = cmp.Or(c.MaxWait, 100*time.Millisecond)
	c.ShortWait = cmp.Or(c.ShortWait, 10*time.Millisecond)
	c.PartBytes = cmp.Or(c.PartBytes, 256<<10)
	c.MaxBytes = cmp.Or(c.MaxBytes, 8<<20)
	c.Backoff = cmp.Or(c.Backoff, 50*time.Millisecond)
	c.TurnBytes = cmp.Or(c.TurnBytes, 4<<20)
	return c
}

// For is the configuration of a Planner that fetches for a purpose. Changelogs are read in turns: those that are read alike are there alike, so that
// whoever writes their rows would have nothing to do while they are read, and then all of it at once. And much at a time: a broker cuts the last batch
// of an answer, which is fetched again, and batches of changelogs are large.
func (c PlannerConfig) For(p Purpose) PlannerConfig {
	c = c.withDefaults()
	if c.Turns = p == Restore; c.Turns {
		c.PartBytes = min(c.TurnBytes, c.MaxBytes/2) // the rest is for those that have little
	}
	return c
}

// Planner decides what the next Fetch to one broker asks for. A partition whose consumer holds more than its bound is left out and
// asked for again below half of it. One Fetch is on the way at a time.
type Planner struct {
	cfg     PlannerConfig
	now     time.Time
	out     []PlannerAction
	parts   []*fetchPart // in the order of asking: who was served moves to the end
	sent    []*fetchPart // asked for in the Fetch on the way
	onWay   bool
	came    bool // something, in the answer that is being taken in
	tries   int
	retryAt time.Time
	wake    time.Time
}

// FetchSource names what is fetched for whom.
type FetchSource struct {
	task.TopicPartition
	Task  task.ID
	Epoch uint64
	Index int    // input of the task, or store in a restore
	Hole  uint64 // tells the holes of a changelog from each other and from its restore: an answer to what was asked for before may still come
}

type fetchPart struct {
	src     FetchSource
	offset  int64
	end     int64 // nothing is asked for from there on; 0: there is none
	epoch   int32
	bound   int
	held    int
	asked   int32 // in the Fetch on the way, or in the last one
	swells  int   // what a byte of the last answer weighs, at the least
	full    bool
	more    bool  // its last answer says that there is much to come
	need    int32 // asked for where its batches are larger than its room; 0: they are not
	taken   int   // bytes since its turn began
	removed bool
	paused  bool
	retryAt time.Time
	tries   int
}

// NewPlanner returns a Planner that has nothing to fetch.
func NewPlanner(cfg PlannerConfig) *Planner { return &Planner{cfg: cfg.withDefaults()} }

// PlannerEvent is what a Planner is told.
type PlannerEvent interface{ plannerEvent() }

type (
	// FetchAdd begins to fetch a partition at an offset, and up to End, or without an end where that is 0. Bound is in bytes, and so is Held, what its
	// consumer has already. A source that is there already is replaced.
	FetchAdd struct {
		Source      FetchSource
		Offset      int64
		End         int64
		LeaderEpoch int32
		Bound       int
		Held        int
	}
	// FetchRemove ends it. What is on the way is dropped.
	FetchRemove struct{ Source FetchSource }
	// FetchBound changes the bound of a partition, and its end.
	FetchBound struct {
		Source FetchSource
		Bound  int
		End    int64
	}
	// FetchPause leaves a partition out until it is told otherwise. What is on the way comes still.
	FetchPause struct {
		Source FetchSource
		Off    bool
	}
	// FetchConsumed gives room back.
	FetchConsumed struct {
		Source FetchSource
		Bytes  int
	}
	// FetchAnswered answers a SendFetch; Err is a transport error.
	FetchAnswered struct {
		Parts []FetchedPart
		Err   error
	}
	// PlannerTick lets time pass.
	PlannerTick struct{}
)

func (FetchAdd) plannerEvent()      {}
func (FetchRemove) plannerEvent()   {}
func (FetchBound) plannerEvent()    {}
func (FetchPause) plannerEvent()    {}
func (FetchConsumed) plannerEvent() {}
func (FetchAnswered) plannerEvent() {}
func (PlannerTick) plannerEvent()   {}

// FetchedPart is one partition of an answer.
type FetchedPart struct {
	task.TopicPartition
	Code  kcode.Code
	Batch *task.Batch // nil where Code is not None
	Err   error       // the bytes are damaged
}

// PlannerAction is what a Planner wants done.
type PlannerAction interface{ plannerAction() }

type (
	// SendFetch sends a Fetch. Parts is valid until the answer.
	SendFetch struct {
		MaxWait  time.Duration
		MaxBytes int32
		Parts    []FetchAsk
	}
	// Deliver hands a batch to its task, or to the restore.
	Deliver struct {
		Source FetchSource
		Batch  *task.Batch
	}
	// PartLost gives a partition back: this broker does not lead it (any more), or cannot be reached. Offset is where to go on.
	PartLost struct {
		Source FetchSource
		Offset int64
		Code   kcode.Code
	}
	// PartFailed gives a partition back: it cannot be read on at Offset without a decision.
	PartFailed struct {
		Source FetchSource
		Offset int64
		Code   kcode.Code
		Err    error
	}
	// PlannerWake asks for a PlannerTick at this time.
	PlannerWake struct{ At time.Time }
)

func (SendFetch) plannerAction()   {}
func (Deliver) plannerAction()     {}
func (PartLost) plannerAction()    {}
func (PartFailed) plannerAction()  {}
func (PlannerWake) plannerAction() {}

// FetchAsk is one partition of a SendFetch.
type FetchAsk struct {
	task.TopicPartition
	Offset      int64
	LeaderEpoch int32
	MaxBytes    int32
}

// Step tells the Planner what happened and returns what is to be done.
func (p *Planner) Step(now time.Time, ev PlannerEvent) []PlannerAction {
	p.now, p.out = now, p.out[:0]
	switch ev := ev.(type) {
	case FetchAdd:
		p.remove(ev.Source)
		p.parts = append(p.parts, &fetchPart{
			src: ev.Source, offset: ev.Offset, end: ev.End, epoch: ev.LeaderEpoch, bound: ev.Bound, held: ev.Held,
			full: ev.Held > 0 && ev.Held >= ev.Bound, swells: firstSwells,
		})
	case FetchRemove:
		p.remove(ev.Source)
	case FetchBound:
		if i := p.find(ev.Source); i >= 0 {
			f := p.parts[i]
			f.bound, f.end, f.full = ev.Bound, ev.End, f.held >= ev.Bound
		}
	case FetchPause:
		if i := p.find(ev.Source); i >= 0 {
			p.parts[i].paused = !ev.Off
		}
	case FetchConsumed:
		p.consumed(ev)
	case FetchAnswered:
		p.answered(ev)
	case PlannerTick:
		p.wake = time.Time{}
	}
	p.plan()
	return p.out
}

// Empty reports whether there is nothing to fetch here and nothing on the way.
func (p *Planner) Empty() bool { return len(p.parts) == 0 && !p.onWay }

func (p *Planner) do(a PlannerAction) { p.out = append(p.out, a) }

func (p *Planner) wakeAt(t time.Time) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
		p.do(PlannerWake{At: t})
	}
}

func (p *Planner) find(src FetchSource) int {
	for i, f := range p.parts {
		if f.src == src {
			return i
		}
	}
	return -1
}

func (p *Planner) remove(src FetchSource) {
	if i := p.find(src); i >= 0 {
		p.drop(p.parts[i])
	}
}

func (p *Planner) drop(f *fetchPart) {
	f.removed = true
	for i := range p.parts {
		if p.parts[i] == f {
			p.parts = append(p.parts[:i], p.parts[i+1:]...)
			return
		}
	}
}

func (p *Planner) consumed(ev FetchConsumed) {
	i := p.find(ev.Source)
	if i < 0 {
		return
	}
	f := p.parts[i]
	f.held = max(f.held-ev.Bytes, 0)
	if f.full && f.held < f.bound/2 {
		f.full = false
	}
}

// plan sends the next Fetch, if none is on the way and there is something to ask for.
func (p *Planner) plan() {
	if p.onWay || len(p.parts) == 0 {
		return
	}
	if p.now.Before(p.retryAt) {
		p.wakeAt(p.retryAt)
		return
	}
	f := SendFetch{MaxWait: p.cfg.MaxWait, MaxBytes: p.cfg.MaxBytes}
	p.sent = p.sent[:0]
	turn := false // somebody has it
	ask := p.asking()
	for _, part := range p.parts {
		switch {
		case part.paused:
		case part.end > 0 && part.offset >= part.end: // the broker would wait for more, and whoever comes next for its answer
		case part.full:
			f.MaxWait = p.cfg.ShortWait
		case p.now.Before(part.retryAt):
			p.wakeAt(part.retryAt)
			f.MaxWait = p.cfg.ShortWait
		case p.cfg.Turns && part.more && turn:
		case !ask.grants(part):
			f.MaxWait = p.cfg.ShortWait
		default:
			turn = turn || part.more
			if part.asked == 0 { // others may be about to come, and would wait until the broker answers for this one
				f.MaxWait = p.cfg.ShortWait
			}
			p.sent = append(p.sent, part)
			part.asked = max(p.room(part, p.cfg.PartBytes), part.need)
			f.Parts = append(f.Parts, FetchAsk{TopicPartition: part.src.TopicPartition, Offset: part.offset, LeaderEpoch: part.epoch, MaxBytes: part.asked})
		}
	}
	if len(f.Parts) == 0 {
		return // a FetchConsumed, a FetchBound, a FetchPause or a tick comes
	}
	if p.cfg.Turns && len(p.sent) == 1 {
		p.sent[0].asked = p.room(p.sent[0], min(p.cfg.TurnBytes, p.cfg.MaxBytes))
		f.Parts[0].MaxBytes = p.sent[0].asked
	}
	p.onWay = true
	p.do(f)
}

func (p *Planner) answered(ev FetchAnswered) {
	p.onWay = false
	if ev.Err != nil {
		p.tries++
		p.retryAt = p.now.Add(min(p.cfg.Backoff<<min(p.tries-1, 5), time.Second))
		p.unreachable()
		return
	}
	p.tries = 0
	p.came = false
	for i := range ev.Parts {
		p.part(&ev.Parts[i])
	}
}

// unreachable gives back what was asked for: its leader may be another broker by now.
func (p *Planner) unreachable() {
	for _, f := range p.sent {
		if !f.removed {
			p.drop(f)
			p.do(PartLost{Source: f.src, Offset: f.offset, Code: kcode.NetworkException})
		}
	}
}

func (p *Planner) part(a *FetchedPart) {
	for _, f := range p.sent {
		if f.src.TopicPartition == a.TopicPartition && !f.removed {
			p.served(f, a)
		}
	}
}

func (p *Planner) served(f *fetchPart, a *FetchedPart) {
	switch {
	case a.Err != nil:
		p.drop(f)
		p.do(PartFailed{Source: f.src, Offset: f.offset, Code: kcode.CorruptMessage, Err: a.Err})
	case a.Code == kcode.None:
		f.tries = 0
		p.deliver(f, a.Batch)
	case a.Code == kcode.OffsetOutOfRange:
		p.drop(f)
		p.do(PartFailed{Source: f.src, Offset: f.offset, Code: a.Code})
	case a.Code == kcode.TopicAuthorizationFailed:
		p.drop(f)
		p.do(PartFailed{Source: f.src, Offset: f.offset, Code: a.Code})
	case movedCode(a.Code):
		p.drop(f)
		p.do(PartLost{Source: f.src, Offset: f.offset, Code: a.Code})
	default:
		f.tries++
		f.retryAt = p.now.Add(min(p.cfg.Backoff<<min(f.tries-1, 5), time.Second))
	}
}

// movedCode reports whether a code says that somebody else has to be asked, or that fresh metadata is needed.
func movedCode(c kcode.Code) bool {
	switch c {
	case kcode.NotLeaderOrFollower, kcode.LeaderNotAvailable, kcode.FencedLeaderEpoch, kcode.UnknownLeaderEpoch,
		kcode.UnknownTopicOrPartition, kcode.ReplicaNotAvailable, kcode.BrokerNotAvailable, kcode.KafkaStorageError:
		return true
	}
	return false
}

func (p *Planner) deliver(f *fetchPart, b *task.Batch) {
	if b == nil || b.Next <= f.offset {
		f.more = false // whoever brings nothing keeps nobody waiting
		p.nothing(f, b)
		return
	}
	p.came = true
	f.offset, f.more = b.Next, b.Next < b.HighWatermark && b.Bytes >= int(f.asked)/2 // who follows a log is always a little behind
	f.held += b.Bytes
	f.taken += b.Bytes
	f.swells = b.Bytes / max(int(f.asked), 1)
	f.full = f.held >= f.bound
	if b.Next >= b.HighWatermark { // what comes from now on is small
		f.need = 0
	}
	if !p.cfg.Turns || !f.more || f.full || f.taken >= f.bound/2 {
		p.toEnd(f)
	}
	p.do(Deliver{Source: f.src, Batch: b})
}

// toEnd moves a partition that was served to the end of the order.
func (p *Planner) toEnd(f *fetchPart) {
	f.taken = 0
	if i := p.find(f.src); i >= 0 {
		copy(p.parts[i:], p.parts[i+1:])
		p.parts[len(p.parts)-1] = f
	}
}
