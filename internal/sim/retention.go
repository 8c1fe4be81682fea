package sim

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// retainSoon lets the input lose records of a gap that has just been opened, as often as the seed says: retention does not wait for anybody.
func (w *world) retainSoon(tp task.TopicPartition) {
	if tp.Topic == topicIn && w.recovery.retention > 0 && !w.healed {
		w.recovery.retention--
		w.recovery.retained = true
		w.After(w.UpTo(50*time.Millisecond), nil, w.retain)
	}
}

// retain takes records of the input away which a second path has yet to take, up to some record of the gap.
func (w *world) retain() {
	var all []engine.RecoveryStatus
	for _, h := range w.hosts {
		if h.p == nil {
			continue
		}
		for _, r := range h.p.Engine.Recovery() {
			if r.Part.Topic == topicIn && !r.Closed && r.Position < r.Hi {
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	r := all[w.Rand.IntN(len(all))]
	to := min(r.Position+1+w.Rand.Int64N(r.Hi-r.Position), w.Broker.End(r.Part))
	if to <= w.Broker.Start(r.Part) {
		return
	}
	w.fault("retention takes %v below %d", r.Part, to)
	w.saw(Retained)
	w.Broker.Trim(w.Now, r.Part, to)
	w.Collect()
}

// loses holds what a task says it has lost against what was taken away: it is not in the log, and this life has not taken it before.
func (o *oracle) loses(p *process, id task.ID, tp task.TopicPartition, from, to int64) {
	life := p.pathsIn(id)
	start, log := o.w.Broker.Start(tp), o.logs[tp]
	if tp.Topic != topicIn || to > start || life == nil {
		o.w.violatedAt(tp, "%s: task %v says that %v has lost %d to %d, and it begins at %d", p.name, id, tp, from, to, start)
		return
	}
	for at := from; at < min(to, int64(len(log))); at++ {
		taken := life.main
		if life.two() && at < life.split.Main {
			taken = life.gap
		}
		if at <= taken && log[at].record && !slices.Contains(life.skipped, at) || !life.open(at) {
			o.w.violatedAt(tp, "%s: task %v says that it has lost offset %d of %v, which it has taken, or which was done before", p.name, id, at, tp)
			return
		}
		if log[at].record {
			o.lost.add(recordID(log[at].value))
		}
	}
}

// pathsIn are those of the life of a task that is running in a process, or of the last that has, nil if there is none.
func (p *process) pathsIn(id task.ID) *paths {
	var found *taskRun
	for key, r := range p.runs {
		if key.Task == id && (found == nil || key.Epoch > found.key.Epoch) {
			found = r
		}
	}
	if found == nil {
		return p.past[id]
	}
	return found.paths
}

// outOfRange is what a task does whose offset is not in the log: where nothing is taken away, that must not be.
func (w *world) outOfRange(topic string) engine.Reset {
	if topic == topicIn && w.recovery.retained {
		return engine.ResetEarliest
	}
	return engine.ResetStop
}
