package streamstest

import (
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// runner is one task with what is around it: the log to fetch from and to write to, the committer, the stores.
type runner struct {
	d       *Driver
	spec    *task.Spec
	id      task.ID
	there   []bool // which inputs have a partition for the task
	owner   *task.Owner
	stores  statestore.TaskStores
	fetched []int64 // next offset to fetch, by input
	lent    []*task.Batch
	held    []*task.Effects // that the brokers have not acknowledged
	sealed  *task.Sealed    // a cut that waits for them
	failed  bool

	crew  *virtual.Crew       // nil where the policy has one worker, which is the task
	queue []func() task.Event // what the task is told next
	busy  bool                // with the queue
}

// aLongTime is a commit interval that never comes.
const aLongTime = 100 * 365 * 24 * time.Hour

func newRunner(d *Driver, spec *task.Spec, partition int32) (*runner, error) {
	r := &runner{d: d, spec: spec, id: task.ID{Subtopology: spec.Subtopology, Partition: partition}, there: d.inputsOf(spec, partition)}
	if err := r.openStores(); err != nil {
		return nil, err
	}
	cfg := task.Config{
		ID: r.id, Epoch: 1, Spec: spec, StreamTime: -1, Partitions: d.partitions,
		CommitInterval: aLongTime, Seed: 1, Workers: true,
	}
	for i := range spec.Stores {
		cfg.Stores = append(cfg.Stores, r.stores.Reader(i))
	}
	for i, in := range spec.Inputs {
		c := d.commits[task.TopicPartition{Topic: in.Topic, Partition: partition}]
		if !r.there[i] {
			c.Offset = -1
		}
		cfg.Positions = append(cfg.Positions, c.Offset)
		cfg.TopicIDs = append(cfg.TopicIDs, retry.TopicID{1, d.deleted[in.Topic]})
		m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
		if err != nil {
			return nil, err
		}
		if !d.died {
			m.Running, m.Starts, m.Suspect, m.Deaths = false, 0, -1, 0
		}
		cfg.Committed = append(cfg.Committed, m)
		cfg.StreamTime = max(cfg.StreamTime, m.StreamTime)
	}
	r.fetched = append(r.fetched, cfg.Positions...)
	r.crew = virtual.NewCrew(cfg, r.answer)
	var err error
	if r.owner, err = task.New(cfg); err != nil {
		return nil, err
	}
	r.step(task.Tick{}) // the schedules of the wall clock begin
	return r, nil
}

// openStores opens the stores and reads what their changelogs have and they have not.
func (r *runner) openStores() error {
	specs := make([]statestore.Spec, 0, len(r.spec.Stores))
	for _, s := range r.spec.Stores {
		specs = append(specs, s.Spec)
	}
	var err error
	if r.stores, err = r.d.backend.Open(r.id, specs); err != nil {
		return err
	}
	for i, s := range r.spec.Stores {
		if s.Changelog == "" {
			continue
		}
		if err := r.restore(i, s.Changelog); err != nil {
			return fmt.Errorf("restore store %q: %w", s.Spec.Name, err)
		}
	}
	return nil
}

func (r *runner) restore(store int, changelog string) error {
	records := r.d.log(changelog).partitions[r.id.Partition]
	batch := statestore.StoreBatch{Store: store, Position: int64(len(records))}
	for _, rec := range records[max(r.stores.Position(store), 0):] {
		batch.Changes = append(batch.Changes, statestore.Change{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	}
	return r.stores.Ingest(&statestore.Batch{Stores: []statestore.StoreBatch{batch}})
}

// step gives the task an event and does what it answers, until it answers nothing more.
func (r *runner) step(ev task.Event) {
	r.tell(ev)
	if r.busy {
		return
	}
	r.busy = true
	defer func() { r.busy, r.queue = false, r.queue[:0] }()
	for len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		r.carry(r.owner.Step(r.d.now, next()))
	}
}

func (r *runner) tell(ev task.Event) { r.later(func() task.Event { return ev }) }

// later tells the task what comes of something that is done when everything before it is.
func (r *runner) later(do func() task.Event) { r.queue = append(r.queue, do) }

func (r *runner) carry(actions []task.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case task.Send:
			if r.send(a.Effects) {
				r.tell(task.Acked{Seq: a.Seq})
			}
		case task.Seal:
			if len(r.held) > 0 {
				r.sealed = a.Sealed
				break
			}
			r.tell(task.Committed{Err: r.commit(a.Sealed)})
		case task.Dispatch:
			r.later(func() task.Event { return r.run(a.Item) })
		case task.Call:
			r.later(func() task.Event { return task.Done{Result: r.crew.Call(r.d.now, a)} })
		case task.Failed:
			r.fail(a.Err)
		}
	}
}

// run lets a worker run an item.
func (r *runner) run(it *task.Item) task.Event {
	result, err := r.crew.Run(r.d.now, it)
	if err != nil {
		return task.Unmanned{Err: err}
	}
	return task.Done{Result: result}
}

// answer lets the task answer what a worker reads, in the middle of an item.
func (r *runner) answer(q task.Read) task.Answer {
	a, rest := virtual.AnswerOf(r.owner.Step(r.d.now, q))
	r.carry(rest)
	return a
}

// write appends effects to the log. They are acknowledged at once.
func (r *runner) write(e *task.Effects) {
	for _, g := range e.Groups {
		l := r.d.log(g.To.Topic)
		for _, rec := range g.Records() {
			l.append(g.To.Partition, rec)
		}
	}
}

// commit commits the offsets of a cut and applies its rows.
func (r *runner) commit(s *task.Sealed) error {
	for _, o := range s.Offsets {
		r.d.commits[o.TopicPartition] = o
	}
	var batch statestore.Batch
	for _, st := range s.Stores {
		position := statestore.NoPosition
		if st.Changelog.Topic != "" {
			position = int64(len(r.d.log(st.Changelog.Topic).partitions[st.Changelog.Partition]))
		}
		batch.Stores = append(batch.Stores, statestore.StoreBatch{Store: st.Store, Changes: st.Changes, Position: position})
	}
	if len(batch.Stores) == 0 {
		return nil
	}
	return r.stores.Apply(&batch)
}

func (r *runner) fail(err error) {
	r.failed = true
	if r.d.err == nil {
		r.d.err = publicError(err)
	}
}

// work fetches and processes one record. It reports whether there was one.
func (r *runner) work() bool {
	if r.failed {
		return false
	}
	for i, in := range r.spec.Inputs {
		if !r.there[i] {
			continue
		}
		if b := r.d.log(in.Topic).batch(r.id.Partition, r.fetched[i]); b != nil {
			r.fetched[i] = b.Next
			r.lent = append(r.lent, b)
			r.step(task.Fetched{Input: i, Batch: b})
		}
	}
	if r.failed || !r.owner.Runnable() {
		return false
	}
	r.step(task.Work{Records: 1})
	r.mangle()
	return true
}

// mangle overwrites the batches that were processed to their end, as a fetch would that uses their memory again: a function that keeps
// bytes or headers which were lent to it does not find in them what it expects.
func (r *runner) mangle() {
	for i, in := range r.owner.Stats().Inputs {
		if in.Position < r.fetched[i] {
			return
		}
	}
	for _, b := range r.lent {
		for _, rec := range b.Records {
			overwrite(rec.Key)
			overwrite(rec.Value)
			for i := range rec.Headers {
				overwrite(rec.Headers[i].Value)
				rec.Headers[i] = task.Header{Key: "overwritten"}
			}
		}
	}
	r.lent = r.lent[:0]
}

func overwrite(b []byte) {
	const junk = 0xdb
	for i := range b {
		b[i] = junk
	}
}

func (r *runner) close() error {
	r.step(task.Close{})
	return errors.Join(r.crew.Close(), r.stores.Close())
}

func (r *runner) dropped() map[string]int64 {
	out := make(map[string]int64)
	for _, drop := range r.owner.Stats().Dropped {
		out[drop.Reason] += drop.N
	}
	return out
}

// settle processes what there is to process, and commits it unless commits are held.
func (d *Driver) settle() {
	if d.o.hold {
		d.work()
		return
	}
	d.commit()
}

// work processes until nothing is left, one record of each task in turn.
func (d *Driver) work() {
	for busy := true; busy; {
		busy = false
		for _, r := range d.runners {
			busy = r.work() || busy
		}
	}
}

// commit processes and commits until nothing is left: what a commit emits is processed by the tasks behind, and committed too.
func (d *Driver) commit() {
	for {
		d.work()
		before := d.written()
		for _, r := range d.runners {
			if !r.failed {
				r.step(task.Commit{})
			}
		}
		if d.written() == before {
			return
		}
	}
}

// written is the number of records in all logs.
func (d *Driver) written() int {
	n := 0
	for _, l := range d.topics {
		n += len(l.all)
	}
	return n
}
