package shell

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/task"
)

// end is where a partition ends that is fetched as an input, as its leader has told with the last answer. It is known to the fetch loop that
// has the partition, which writes to it without a lock, and begins anew with every leader.
type end struct {
	offset atomic.Int64
	at     atomic.Int64 // when it was told, in ns since the epoch; 0: not yet
	users  int          // sources of the loop that read the partition
}

func (e *end) told(offset int64) {
	e.offset.Store(offset)
	e.at.Store(time.Now().UnixNano())
}

// ends are those of all loops.
type ends struct {
	mu  sync.Mutex
	all map[task.TopicPartition]*end
}

func (e *ends) set(tp task.TopicPartition, to *end) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[task.TopicPartition]*end{}
	}
	e.all[tp] = to
}

// drop forgets an end, unless another loop has the partition by now.
func (e *ends) drop(tp task.TopicPartition, of *end) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all[tp] == of {
		delete(e.all, tp)
	}
}

const (
	// staleAfter is how old an end is that is asked for: a partition is left out of the fetches while the queue of its task is full.
	staleAfter = 2 * time.Second
	// knownFor is how long an end counts. A leader that does not answer for so long is not there.
	knownFor = 15 * time.Second
)

// fresh returns the ends that are known, and of the rest those that are to be asked for.
func (e *ends) fresh(now time.Time) (known map[task.TopicPartition]int64, stale map[task.TopicPartition]*end) {
	known, stale = map[task.TopicPartition]int64{}, map[task.TopicPartition]*end{}
	e.mu.Lock()
	defer e.mu.Unlock()
	for tp, one := range e.all {
		at := one.at.Load()
		age := now.Sub(time.Unix(0, at))
		if at != 0 && age < knownFor {
			known[tp] = one.offset.Load()
		}
		if at == 0 || age >= staleAfter {
			stale[tp] = one
		}
	}
	return known, stale
}

// noteEnds follows what the loop fetches.
func (l *fetchLoop) noteEnds(ev engine.PlannerEvent) {
	if l.key.purpose != engine.Input {
		return
	}
	switch ev := ev.(type) {
	case engine.FetchAdd:
		e := l.ends[ev.Source.TopicPartition]
		if e == nil {
			e = &end{}
			l.ends[ev.Source.TopicPartition] = e
			l.f.ends.set(ev.Source.TopicPartition, e)
		}
		e.users++
	case engine.FetchRemove:
		l.forgetEnd(ev.Source)
	}
}

// forgetEnd is called when the loop does not fetch for a source any more.
func (l *fetchLoop) forgetEnd(src engine.FetchSource) {
	e := l.ends[src.TopicPartition]
	if e == nil {
		return
	}
	if e.users--; e.users <= 0 {
		delete(l.ends, src.TopicPartition)
		l.f.ends.drop(src.TopicPartition, e)
	}
}

func (l *fetchLoop) forgetEnds() {
	for tp, e := range l.ends {
		l.f.ends.drop(tp, e)
	}
}

// lags asks all tasks that run here how far they have come. Those that do not answer in time are left out.
func (t *tasks) lags(ctx context.Context, within time.Duration) map[engine.FetchSource]task.Lag {
	type told struct {
		src engine.FetchSource
		lag task.Lag
	}
	t.mu.RLock()
	answers := make(chan []told, len(t.by))
	asked := 0
	for key, l := range t.by {
		if l.box.put(task.Ask{Answer: func(o *task.Owner) {
			inputs := l.inputs[:len(l.inputs)/2] // without second paths, which the first one tells of
			all := make([]told, len(inputs))
			for i, tp := range inputs {
				all[i] = told{engine.FetchSource{TopicPartition: tp, Task: key.task, Epoch: key.epoch, Index: i}, o.Lag(i)}
			}
			answers <- all
		}}) {
			asked++
		}
	}
	t.mu.RUnlock()

	out := map[engine.FetchSource]task.Lag{}
	limit := time.NewTimer(within)
	defer limit.Stop()
	for range asked {
		select {
		case all := <-answers:
			for _, a := range all {
				out[a.src] = a.lag
			}
		case <-limit.C:
			return out
		case <-ctx.Done():
			return out
		}
	}
	return out
}

// Lag says how far the partitions that are read here have come, by what tasks tell within that time and leaders have told already.
func (r *Runtime) Lag(within time.Duration) []engine.PartLag {
	said := engine.LagKnown{Told: r.tasks.lags(r.work, within)}
	said.Ends, _ = r.fetch.ends.fresh(time.Now())
	r.deciding.Lock()
	defer r.deciding.Unlock()
	return r.engine.Lag(said)
}

// askPatience is how long tasks have to say how far they have come, and leaders to say where their partitions end.
const askPatience = 2 * time.Second

// askLag answers the engine, and asks for the ends that no fetch has told for a while.
func (r *Runtime) askLag(ctx context.Context) {
	_, stale := r.fetch.ends.fresh(time.Now())
	if len(stale) > 0 {
		limited, cancel := context.WithTimeout(ctx, askPatience)
		got, _ := r.listAt(limited, kafka.Latest, slices.Collect(maps.Keys(stale))) // what is not told stays unknown
		cancel()
		for tp, offset := range got {
			stale[tp].told(offset)
		}
	}
	ev := engine.LagKnown{Told: r.tasks.lags(ctx, askPatience), Calls: r.tasks.calls()}
	ev.Ends, _ = r.fetch.ends.fresh(time.Now())
	r.post(ev)
}
