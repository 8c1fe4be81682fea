package sim

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// changes is what the oracle knows of the changelog of a partition, and of the task that it belongs to.
type changes struct {
	o       *oracle
	tp      task.TopicPartition
	store   int // of the task
	id      task.ID
	grant   int32 // the generation that its present owner has it from
	since   time.Time
	begun   bool              // that owner has written
	anew    bool              // it has begun again in the same grant, and has put out nothing yet
	rightly map[string][]byte // the last rows of those who ran the task when they wrote them
	emits   map[string]int    // the last counts that the present owner has put out
	folds   map[*process]*folded
}

func newChanges(o *oracle, tp task.TopicPartition, store int) *changes {
	return &changes{
		o: o, tp: tp, store: store, id: task.ID{Subtopology: 1, Partition: tp.Partition}, rightly: map[string][]byte{}, emits: map[string]int{}, folds: map[*process]*folded{},
	}
}

// changes is the changelog at tp, for other topics of subtopology 1 that of its counts.
func (o *oracle) changes(tp task.TopicPartition) *changes {
	if tp.Topic == topicParked {
		return o.parkedOf[tp.Partition]
	}
	return o.logsOf[tp.Partition]
}

// changelogs are those of a partition.
func (o *oracle) changelogs(partition int32) []*changes {
	if !o.w.failing.aside() {
		return []*changes{o.logsOf[partition]}
	}
	return []*changes{o.logsOf[partition], o.parkedOf[partition]}
}

func isLog(topic string) bool { return topic == topicCounts || topic == topicParked }

// ofCounts says that a topic has what tasks of subtopology 1 write, partitioned as they are.
func ofCounts(topic string) bool { return isLog(topic) || topic == topicOut || topic == topicDead }

// folded is what the changelog says that a store holds at a position.
type folded struct {
	at   int64
	rows map[string][]byte
}

// fold is what the changelog says that a store holds at a position. It is good until the next fold for the same process; nil stands for none.
func (c *changes) fold(p *process, position int64) map[string][]byte {
	f := c.folds[p]
	if f == nil {
		f = &folded{rows: map[string][]byte{}}
		c.folds[p] = f
	}
	log := c.o.logs[c.tp]
	position = min(max(position, 0), int64(len(log)))
	if position < f.at {
		f.at = 0
		clear(f.rows)
	}
	for ; f.at < position; f.at++ {
		put(f.rows, &log[f.at])
	}
	return f.rows
}

func put(rows map[string][]byte, r *written) {
	switch {
	case !r.record:
	case r.value == nil:
		delete(rows, r.key)
	default:
		rows[r.key] = r.value
	}
}

// granted begins the tenure of an owner, unless somebody who was granted the task later was faster.
func (c *changes) granted(t engine.Tenure) {
	if t.Generation < c.grant {
		return
	}
	c.anew = t.Generation == c.grant
	c.grant, c.since, c.begun = t.Generation, c.o.w.Now, false
	clear(c.emits)
}

// strange says that whoever wrote a batch did not run the task any more when it was appended.
func (o *oracle) strange(call *virtual.Call, b modelbroker.ProduceBatch) bool {
	p := of(call.Link.Process)
	if p == nil || !ofCounts(b.Topic) {
		return false
	}
	c := o.changes(b.TopicPartition)
	return !o.runsIt(p, c.id) || p.mayNotKnow() || call.Sent.Before(c.since) || c.ofAnother(p, b)
}

// ofAnother says that a batch is not of the present owner, or of him at an earlier time at which he had the task.
func (c *changes) ofAnother(p *process, b modelbroker.ProduceBatch) bool {
	return c.o.last[c.id] != p || isLog(b.Topic) && b.Epoch != int16(c.grant)
}

func (o *oracle) runsIt(p *process, id task.ID) bool {
	for _, q := range o.runs[id] {
		if q == p {
			return true
		}
	}
	return false
}

// stranger notes such a batch. Nothing keeps it out before the owner's first batch; after that the broker does (rule M8).
func (o *oracle) stranger(p *process, b modelbroker.ProduceBatch, base int64) {
	o.w.notePart(p, b.TopicPartition, "{b} records of one who does not run the task any more, at {a}", base, int64(len(b.Records)))
	if b.Topic == topicOut {
		o.w.saw(StrangerOut)
		o.outOfOrder[b.Partition] = true
		return
	}
	if b.Topic == topicDead {
		return
	}
	o.w.saw(Stranger)
	if c := o.changes(b.TopicPartition); c.begun && c.ofAnother(p, b) {
		o.w.violatedAt(c.tp, "a late batch of %s went into %v at %d, behind the first one of %s, who has the task now", p.name, c.tp, base, nameOf(o.last[c.id]))
	}
}

// fenced holds the refusal of a batch against who has the task.
func (o *oracle) fenced(p *process, b modelbroker.ProduceBatch) {
	o.w.saw(StrangerFenced)
	o.w.notePart(p, b.TopicPartition, "is refused: somebody else has the task now", 0, 0)
	if c := o.changes(b.TopicPartition); !c.ofAnother(p, b) {
		o.w.violatedAt(c.tp, "%s is refused in %v, though it has the task", nameOf(p), c.tp)
	}
}

// wrote holds rows that were written to the changelog against those before: no record may have gone missing from them.
func (c *changes) wrote(p *process, b modelbroker.ProduceBatch) {
	c.begun = true
	for _, r := range b.Records {
		before := c.rightly[string(r.Key)]
		if !includes(r.Value, before) {
			c.o.w.violatedAt(c.tp, "%s writes a row of %s with %d records to the changelog, which had one with %d", p.name, r.Key, countIn(r.Value), countIn(before))
			return
		}
		c.rightly[string(r.Key)] = r.Value
	}
}

// includes says that a row has all records of another one.
func includes(row, other []byte) bool {
	for i := 8; i < len(other); i++ {
		if i >= len(row) || other[i]&^row[i] != 0 {
			return false
		}
	}
	return true
}

// emitted holds the outputs of one owner against each other: a count never shrinks. The first batch of one that has begun again in the same grant may be
// one of its life before, sent again to know whether it was appended.
func (c *changes) emitted(p *process, b modelbroker.ProduceBatch) {
	if c.anew {
		c.anew = false
		return
	}
	for _, r := range b.Records {
		n := countIn(r.Value)
		if n < c.emits[string(r.Key)] {
			c.o.w.violatedAt(b.TopicPartition, "%s puts out that %s was seen %d times, after %d", p.name, r.Key, n, c.emits[string(r.Key)])
		}
		c.emits[string(r.Key)] = n
	}
}

// applied holds a store against its changelog when a commit or a part of a restore was written to it. While somebody else's records lie behind
// the position, the owner's own rows are written all the same.
func (o *oracle) applied(p *process, a engine.Apply, s statestore.TaskStores) {
	for _, c := range o.changelogs(a.Task.Partition) {
		if slices.ContainsFunc(a.Batch.Stores, func(b statestore.StoreBatch) bool { return b.Store == c.store }) {
			c.applied(p, a, s)
		}
	}
}

func (c *changes) applied(p *process, a engine.Apply, s statestore.TaskStores) {
	o, position := c.o, s.Position(c.store)
	if a.Bulk && o.compacted {
		c.restartable(p.name, s)
		return
	}
	want := c.fold(p, position)
	runs := slices.Contains(o.runs[a.Task], p)
	if !runs && differs(s.Reader(c.store), want) {
		// What was an owner's store with a hole in its changelog is ahead of its position: it meets older rows on its way to where it was.
		c.restartable(p.name, s)
		return
	}
	if log := o.logs[c.tp]; runs && !a.Bulk && position < int64(len(log)) {
		want = maps.Clone(want)
		for i := max(position, 0); i < int64(len(log)); i++ {
			if r := &log[i]; r.by == p && !r.strange {
				put(want, r)
			}
		}
	}
	c.matches(p, position, s, want)
}

// restored holds a store against its changelog when its task begins to run.
func (o *oracle) restored(p *process, id task.ID, s statestore.TaskStores) {
	for _, c := range o.changelogs(id.Partition) {
		position := s.Position(c.store)
		c.matches(p, position, s, c.fold(p, position))
	}
}

func (c *changes) matches(p *process, position int64, s statestore.TaskStores, want map[string][]byte) {
	if !differs(s.Reader(c.store), want) {
		return
	}
	got := rows(s.Reader(c.store))
	if len(want) != len(got) {
		c.o.w.violatedAt(c.tp, "%s: the store of task %v at %d has %d rows, its changelog makes %d", p.name, c.id, position, len(got), len(want))
	}
	for key, value := range want {
		if !bytes.Equal(got[key], value) {
			c.o.w.violatedAt(c.tp, "%s: a row in the store of task %v at %d is not that of its changelog: count %d, not %d",
				p.name, c.id, position, countIn(got[key]), countIn(value))
			return
		}
	}
}

// restartable holds a store against its changelog as whoever opens it next would: with what lies behind its position it must be all that the
// changelog says.
func (o *oracle) restartable(name string, id task.ID, s statestore.TaskStores) {
	for _, c := range o.changelogs(id.Partition) {
		c.restartable(name, s)
	}
}

func (c *changes) restartable(name string, s statestore.TaskStores) {
	o, id, position := c.o, c.id, s.Position(c.store)
	if position < o.w.Broker.Start(c.tp) {
		return // it will be emptied
	}
	end := o.w.Broker.End(c.tp)
	if position > end {
		o.w.violatedAt(c.tp, "%s: the store of task %v is at %d, its changelog ends at %d", name, id, position, end)
		return
	}
	got := rows(s.Reader(c.store))
	o.w.Broker.Tail(c.tp, position, func(r *task.Record) {
		put(got, &written{record: true, key: string(r.Key), value: r.Value})
	})
	if want := c.fold(nil, end); !maps.EqualFunc(got, want, bytes.Equal) {
		o.w.violatedAt(c.tp, "%s: the store of task %v at %d and what follows do not make what its changelog says", name, id, position)
	}
}

// crashed holds what a crash has left on a disk against the changelogs.
func (o *oracle) crashed(name string, disk *statestore.Memory) {
	stored, err := disk.Tasks()
	if err != nil {
		o.w.violated("%s: %v", name, err)
	}
	for _, t := range stored {
		s, err := disk.Open(t.ID, o.w.specs())
		if err != nil {
			o.w.violated("%s: %v", name, err)
			return
		}
		o.restartable(name, t.ID, s)
		if err := s.Close(); err != nil {
			o.w.violated("%s: %v", name, err)
		}
	}
}

// sealed holds what a task sees of its counts against what it has sealed, on top of what it began with. Where records are put aside a seal may
// wait for its second leg, and the task has gone on meanwhile.
func (o *oracle) sealed(r *taskRun, s *task.Sealed) {
	for _, st := range s.Stores {
		if st.Store != storeCounts {
			continue
		}
		for _, ch := range st.Changes {
			put(r.view, &written{record: true, key: string(ch.Key), value: bytes.Clone(ch.Value)})
		}
	}
	store := r.Owner.Env().Store(storeCounts)
	for _, word := range o.w.source.all {
		row, found, err := store.Get([]byte(word))
		want, has := r.view[word]
		same := found == has && bytes.Equal(row.Value, want) || o.w.failing.aside() && includes(row.Value, want)
		if err != nil || !same {
			o.w.violatedTask(r.key.Task, "%s: task %v has a count of %d for %s and has sealed %d", r.p.name, r.key.Task, countIn(row.Value), word, countIn(want))
		}
	}
}

// refusals counts what brokers said for which somebody has to change its mind.
func (o *oracle) refusals(r modelbroker.Response) {
	switch r := r.(type) {
	case modelbroker.ProduceResponse:
		for _, part := range r.Parts {
			o.refusal(part.Code)
		}
	case modelbroker.FetchResponse:
		for _, part := range r.Parts {
			o.refusal(part.Code)
		}
	case modelbroker.HeartbeatResponse:
		o.refusal(r.Code)
	case modelbroker.JoinGroupResponse:
		o.refusal(r.Code)
	case modelbroker.OffsetFetchResponse:
		o.refusal(r.Code)
		for _, part := range r.Parts {
			o.refusal(part.Code)
		}
	case modelbroker.OffsetCommitResponse:
		for _, code := range r.Codes {
			o.refusal(code)
		}
	}
}

func (o *oracle) refusal(code kcode.Code) {
	switch code {
	case kcode.NotLeaderOrFollower, kcode.FencedLeaderEpoch, kcode.UnknownLeaderEpoch:
		o.w.saw(LeaderMoved)
	case kcode.NotCoordinator:
		o.w.saw(CoordinatorMoved)
	case kcode.CoordinatorLoadInProgress:
		o.w.saw(CoordinatorLoading)
	case kcode.InvalidTimestamp:
		o.w.saw(RecordRefused)
	case kcode.UnstableOffsetCommit:
		o.w.saw(UnstableOffset)
	}
}
