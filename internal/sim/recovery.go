package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// recovering is how a run goes on after ends that were none: above so many records of lag on two paths at once; 0 is never. Its numbers are drawn
// by themselves, so that all other seeds are as they would be without.
type recovering struct {
	above     int64
	retention int  // how often the input loses records that a second path has yet to take
	retained  bool // it has
}

func newRecovering(cfg Config, m *mood) recovering {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x7265636f))
	r := recovering{above: []int64{1, 2, 5}[rng.IntN(3)]}
	if !cfg.Recover && rng.IntN(4) > 0 {
		return recovering{}
	}
	if rng.IntN(2) == 0 && !cfg.Calm && !m.planned {
		r.retention = 1 + rng.IntN(6)
	}
	return r
}

// paths are the two paths of one life of a task, as far as they have come.
type paths struct {
	split   retry.Split // of the input; with no gap there is one path
	from    int64       // where the main path begins
	main    int64       // the last offset that it has taken, or -1
	gap     int64
	said    retry.Metadata // what was committed of it
	skipped []int64        // offsets that it has left out because they are not in the log any more
	over    bool           // the task was told that it is: what is done on workers still counts for nothing
}

func newPaths(a engine.StartTask) *paths {
	p := &paths{from: a.Positions[0], main: -1, gap: -1}
	if len(a.Splits) > 0 {
		p.split = a.Splits[0]
	}
	if len(a.Committed) > 0 {
		p.said = a.Committed[0]
	}
	return p
}

// open says that the life has to take an offset, on one path or the other.
func (p *paths) open(offset int64) bool {
	switch {
	case p.two() && offset < p.split.Main:
		return p.inGap(offset)
	case offset < p.said.Main && len(p.said.Holes) > 0:
		return within(p.said.Holes, offset)
	}
	return true
}

// two says that there is a gap, and inGap that an offset is one of its.
func (p *paths) two() bool { return len(p.split.Gap) > 0 }

func (p *paths) inGap(offset int64) bool { return within(p.split.Gap, offset) }

func within(runs []retry.Run, offset int64) bool {
	return slices.ContainsFunc(runs, func(r retry.Run) bool { return r.From <= offset && offset < r.To })
}

// splits holds that nothing is between two chairs when a task goes on with two paths: what lies below the main one is done, or in the gap; and the
// gap is within the log.
func (o *oracle) splits(p *process, a engine.StartTask) {
	for i, s := range a.Splits {
		if len(s.Gap) == 0 {
			continue
		}
		tp := task.TopicPartition{Topic: p.spec[a.Task.Subtopology].Inputs[i].Topic, Partition: a.Task.Partition}
		log := o.logs[tp]
		end := o.w.Broker.End(tp)
		if s.Main > end {
			o.w.violatedAt(tp, "%s: task %v goes on at %d, the log ends at %d", p.name, a.Task, s.Main, end)
			continue
		}
		o.w.saw(TwoPaths)
		if len(s.Gap) > 1 || len(a.Committed[i].Holes) > 0 {
			o.w.saw(GapOfGaps)
		}
		paths := newPaths(engine.StartTask{Positions: a.Positions, Splits: a.Splits[i:]})
		for at := range min(s.Main, int64(len(log))) {
			if log[at].record && !paths.inGap(at) && !o.done(tp, at) {
				o.w.violatedAt(tp, "%s: task %v goes on at %d and replays %v, but offset %d is not done", p.name, a.Task, s.Main, s.Gap, at)
				return
			}
		}
	}
}

// done says that a record has left what it was to leave.
func (o *oracle) done(tp task.TopicPartition, at int64) bool {
	n := recordID(o.logs[tp][at].value)
	if tp.Topic == topicWords {
		return o.failed.done(tp, at, n) || o.failed.isParked(tp, at)
	}
	return o.split.has(n) || o.lost.has(n)
}

// said holds what a commit says of records above its offset against what has been done with them.
func (o *oracle) said(tp task.TopicPartition, offset int64, m retry.Metadata) {
	if len(m.Holes) == 0 {
		return
	}
	log := o.logs[tp]
	for at := offset; at < min(m.Main, int64(len(log))); at++ {
		if log[at].record && !within(m.Holes, at) && !o.done(tp, at) {
			o.w.violatedAt(tp, "a commit of %v at %d says that %d is done, but record %d left no trace", tp, offset, at, recordID(log[at].value))
			return
		}
	}
}

// recovered notes what a task tells of its gap.
func (o *oracle) recovered(p *process, n engine.Notice) {
	if n.Kind == engine.NoticeGapClosed {
		o.w.saw(GapClosed)
	}
	switch n.Kind {
	case engine.NoticeGap:
		o.w.retainSoon(n.Part)
	case engine.NoticeRangeLost:
		o.w.saw(RangeLost)
		o.loses(p, n.Task, n.Part, n.Start, n.End)
	case engine.NoticeReset:
		o.w.saw(Reset)
		o.loses(p, n.Task, n.Part, n.Position, n.End)
	}
}

// pathsOf are those of the life that the nodes are made for.
func (p *process) pathsOf() *paths {
	if t, _ := p.Starting(); t != nil {
		if r := p.runs[t.Key]; r != nil {
			return r.paths
		}
	}
	return &paths{main: -1, gap: -1} // one of the tests of the oracle
}
