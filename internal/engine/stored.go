package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// stored are the states that lie on disk and that nobody uses at the moment. A join tells of them, so that a task goes where its state is; one
// that nobody has asked for in a long time is thrown away.
type stored struct {
	copies  map[task.ID]*storedCopy
	ready   bool   // what is on disk is known, and so are the lags, or they have been waited for in vain
	looking bool   // ListStored is on the way
	list    uint64 // the ListOffsets on the way
	by      time.Time
	at      time.Time // when the lags are looked at again
	cleanAt time.Time
}

// storedCopy is the state of one task. Ends is nil while they are not known. A state that nobody feeds falls behind while nobody looks, so what
// its changelogs grow by is reckoned in.
type storedCopy struct {
	positions []int64 // per store of its subtopology
	ends      []int64
	at        time.Time // when those were the ends
	growth    float64   // records a second; known once they have been looked at twice
	grows     bool      // it is known
	since     time.Time // nobody has used it
	dropping  bool
}

const (
	storedWait  = 2 * time.Second  // for the lags, before the group is joined without them
	storedEvery = 30 * time.Second // between two looks at the lags
	storedAgain = time.Second      // until the second one, which tells how fast a changelog grows
	cleanEvery  = time.Minute      // at most, between two looks for what is to be thrown away
)

// lookAtDisk asks what is on disk before the group is joined for the first time. It reports false when all is known that will be.
func (e *Engine) lookAtDisk() bool {
	s := &e.stored
	if s.ready {
		return false
	}
	if s.copies == nil {
		s.copies = map[task.ID]*storedCopy{}
		if !slices.ContainsFunc(e.cfg.Specs, func(t *task.Spec) bool { return len(t.Stores) > 0 }) {
			s.ready = true
			return false
		}
		s.looking, s.by = true, e.now.Add(storedWait)
		e.do(ListStored{})
	}
	if s.looking || s.list != 0 {
		if e.now.Before(s.by) {
			e.wakeAt(s.by)
			return true
		}
		s.list = 0
	}
	s.ready = true
	return false
}

func (e *Engine) storedKnown(ev StoredKnown) {
	s := &e.stored
	s.looking = false
	if ev.Err != nil {
		e.note(Notice{Kind: NoticeRetry, What: "states on disk", Err: ev.Err})
	}
	for _, t := range ev.Tasks {
		if e.lives[t.ID] == nil {
			s.copies[t.ID] = &storedCopy{positions: e.positionsOf(t), since: e.now}
		}
	}
	e.listStored()
	s.cleanAt = e.now.Add(min(cleanEvery, e.cfg.StateCleanup))
	e.beginGroup()
}

// positionsOf puts the positions of a state in the order of the subtopology's stores. What is of another changelog is no copy.
func (e *Engine) positionsOf(t statestore.StoredTask) []int64 {
	spec := e.specs[t.ID.Subtopology]
	if spec == nil {
		return nil
	}
	out := make([]int64, len(spec.Stores))
	for i, st := range spec.Stores {
		want := st.Spec
		want.Changelog = e.ids[st.Changelog]
		out[i] = statestore.NoPosition
		if have := t.Store(st.Spec.Name); want.Fits(have.Changelog) {
			out[i] = have.Position
		}
	}
	return out
}

// listStored asks for the ends of the changelogs of what is on disk.
func (e *Engine) listStored() {
	s := &e.stored
	s.at = e.now.Add(storedEvery)
	if s.list != 0 {
		return
	}
	var parts []task.TopicPartition
	for _, id := range slices.SortedFunc(maps.Keys(s.copies), task.ID.Compare) {
		parts = append(parts, e.logsOf(id)...)
	}
	if len(parts) == 0 {
		return
	}
	s.list = e.request()
	e.do(ListOffsets{Request: s.list, Parts: parts})
}

func (e *Engine) logsOf(id task.ID) (out []task.TopicPartition) {
	spec := e.specs[id.Subtopology]
	if spec == nil {
		return nil
	}
	for _, st := range spec.Stores {
		if st.Changelog != "" && id.Partition < e.counts[st.Changelog] {
			out = append(out, task.TopicPartition{Topic: st.Changelog, Partition: id.Partition})
		}
	}
	return out
}

// storedListed takes the ends in, if they were asked for here.
func (e *Engine) storedListed(ev OffsetsListed) bool {
	s := &e.stored
	if ev.Request != s.list || s.list == 0 {
		return false
	}
	s.list = 0
	for id, c := range s.copies {
		logs := e.logsOf(id)
		if len(logs) == 0 {
			continue
		}
		if !c.grows {
			s.at = minTime(s.at, e.now.Add(storedAgain))
		}
		if !covers(ev, logs...) {
			continue
		}
		ends := make([]int64, len(c.positions))
		for i, st := range e.specs[id.Subtopology].Stores {
			if st.Changelog != "" {
				ends[i] = ev.End[task.TopicPartition{Topic: st.Changelog, Partition: id.Partition}]
			}
		}
		c.sees(ends, e.now)
	}
	e.beginGroup()
	return true
}

// sees takes the ends of the changelogs in, and with those before how fast they grow.
func (c *storedCopy) sees(ends []int64, now time.Time) {
	if took := now.Sub(c.at).Seconds(); c.ends != nil && took > 0 {
		n := int64(0)
		for i := range ends {
			n += max(0, ends[i]-c.ends[i])
		}
		c.growth, c.grows = float64(n)/took, true
	}
	c.ends, c.at = ends, now
}

// lag is how far the copy is behind; unknown where anything of it is missing.
func (c *storedCopy) lag(now time.Time) assignor.Lag {
	if c.ends == nil {
		return assignor.LagUnknown
	}
	n := int64(math.Ceil(c.growth * now.Sub(c.at).Seconds()))
	for i, pos := range c.positions {
		switch {
		case pos == statestore.NoPosition:
			n += c.ends[i]
		case pos > c.ends[i]:
			return assignor.LagUnknown // not of this log
		default:
			n += c.ends[i] - pos
		}
	}
	return assignor.Lag(n)
}

// storedCopies are what a join says of the states on disk.
func (e *Engine) storedCopies() (out []assignor.Replica) {
	for _, id := range slices.SortedFunc(maps.Keys(e.stored.copies), task.ID.Compare) {
		if c := e.stored.copies[id]; !c.dropping && e.lives[id] == nil && c.held() && len(e.logsOf(id)) > 0 {
			out = append(out, assignor.Replica{Task: id, Kind: assignor.OnDisk, Lag: c.lag(e.now)})
		}
	}
	return out
}

// lackedOnDisk is the lag of the state of a task on disk, -1 where it is not known.
func (e *Engine) lackedOnDisk(id task.ID) int64 {
	if c := e.stored.copies[id]; c != nil && !c.dropping && c.held() {
		return max(int64(c.lag(e.now)), -1)
	}
	return -1
}

// held says that there is anything of the state.
func (c *storedCopy) held() bool {
	return slices.ContainsFunc(c.positions, func(p int64) bool { return p != statestore.NoPosition })
}

// leaveOnDisk notes the state that a life leaves behind.
func (e *Engine) leaveOnDisk(l *life) {
	if l.at == nil || e.stored.copies == nil {
		return
	}
	c := &storedCopy{positions: slices.Clone(l.at), since: e.now}
	if l.ends != nil {
		c.sees(slices.Clone(l.ends), e.now)
	}
	e.stored.copies[l.id] = c
	if s := &e.stored; s.list == 0 && e.now.Add(storedAgain).Before(s.at) {
		s.at = e.now.Add(storedAgain)
		e.wakeAt(s.at)
	}
}

// tickStored keeps the lags of what is on disk up to date, and throws away what nobody wants.
func (e *Engine) tickStored() {
	s := &e.stored
	if len(s.copies) == 0 || e.stopping() {
		return
	}
	if !e.now.Before(s.at) {
		e.listStored()
	}
	if !e.now.Before(s.cleanAt) {
		s.cleanAt = e.now.Add(min(cleanEvery, e.cfg.StateCleanup))
		e.cleanStored()
	}
	e.wakeAt(minTime(s.at, s.cleanAt))
}

// cleanStored throws away what nobody has used for long, but nothing while a round is under way: a join has told of it, and the plan that is being
// made may count on it.
func (e *Engine) cleanStored() {
	if !e.Joined() || e.prepare != nil {
		e.stored.cleanAt = e.now.Add(time.Second)
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(e.stored.copies), task.ID.Compare) {
		c := e.stored.copies[id]
		if c.dropping || e.lives[id] != nil || e.now.Sub(c.since) < e.cfg.StateCleanup {
			continue
		}
		c.dropping = true
		e.do(DropStored{Task: id})
	}
}

func (e *Engine) storedDropped(ev StoredDropped) {
	c := e.stored.copies[ev.Task]
	if c == nil || !c.dropping {
		return
	}
	if ev.Err != nil {
		c.dropping, c.since = false, e.now
		e.note(Notice{Kind: NoticeRetry, What: "cleanup of the state of task " + ev.Task.String(), Err: ev.Err})
		return
	}
	delete(e.stored.copies, ev.Task)
	e.note(Notice{Kind: NoticeCleaned, Task: ev.Task})
}
