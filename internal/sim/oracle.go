package sim

import (
	"bytes"
	"math"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// slack is how long a process that was paused may go on after it woke: a mailbox may hold work that comes before the end of the lease.
const slack = time.Second

// oracle sees everything and knows what must hold.
type oracle struct {
	w          *world
	over       bool
	down       map[int32]bool // nodes
	logs       map[task.TopicPartition][]written
	members    map[string]*process
	runs       map[task.ID][]*process // whose owners may process the task
	last       map[task.ID]*process   // who was the last to begin to
	input      map[int]bool           // records that are in the input
	split      map[int]bool           // records that are in the words
	counted    map[int]bool           // records that are in the changelog
	compacted  bool
	strange    map[int32]int64 // by partition of the changelog: behind the last record of a stranger, see there
	outOfOrder map[int32]bool  // partitions of the output of which the same is true
	foreign    int
	resumed    int // suspensions that ended
	lost       int // records that a restore would not find any more
}

// written is a record of a topic; without a value it is a transaction marker.
type written struct {
	key   string
	value []byte
	by    *process
}

func (o *oracle) init(w *world) {
	*o = oracle{
		w: w, down: map[int32]bool{}, logs: map[task.TopicPartition][]written{}, members: map[string]*process{}, runs: map[task.ID][]*process{},
		last: map[task.ID]*process{}, input: map[int]bool{}, split: map[int]bool{}, counted: map[int]bool{}, strange: map[int32]int64{}, outOfOrder: map[int32]bool{},
	}
}

// request sees a request at the moment at which it is served.
func (o *oracle) request(c *call, req modelbroker.Request) {
	switch r := req.(type) {
	case modelbroker.ProduceRequest:
		c.produce = r.Batches
	case modelbroker.DeleteRecordsRequest:
		for _, part := range r.Parts {
			if at := o.w.broker.Committed(groupName, part.TopicPartition); part.Before > at {
				o.w.violated("%s deletes %v below %d, committed is %d", c.link.p.name, part.TopicPartition, part.Before, at)
			}
		}
	}
}

// answer sees an answer at the moment at which it is given, before it may be lost.
func (o *oracle) answer(c *call, r modelbroker.Response) {
	switch r := r.(type) {
	case modelbroker.JoinGroupResponse:
		if r.MemberID != "" {
			o.members[r.MemberID] = c.link.p
		}
	case modelbroker.ProduceResponse:
		for i, part := range r.Parts {
			if part.Code == kcode.None {
				o.appended(c.link, c.produce[i], part.BaseOffset)
			}
		}
	}
}

// appended takes a batch into the oracle's own copy of the log. One that was there already is known by its offset.
func (o *oracle) appended(l *link, b modelbroker.ProduceBatch, base int64) {
	p, log := l.p, o.logs[b.TopicPartition]
	if base < int64(len(log)) {
		return
	}
	for int64(len(log)) < base {
		log = append(log, written{}) // transaction markers
	}
	if l.late {
		o.stranger(p, b, base)
	}
	for _, r := range b.Records {
		if b.Topic == topicCounts {
			o.grows(p, b.Partition, r)
		}
		log = append(log, written{key: string(r.Key), value: bytes.Clone(r.Value), by: p})
		o.count(b.TopicPartition, r)
	}
	o.logs[b.TopicPartition] = log
}

// sent holds a produce request against S1 at the moment at which it is sent: what a task makes leaves the process only while it has the task.
func (o *oracle) sent(p *process, r modelbroker.ProduceRequest) {
	for _, b := range r.Batches {
		id := task.ID{Subtopology: 1, Partition: b.Partition} // counts and their outputs are partitioned by the same key
		if q := o.last[id]; q != p && (b.Topic == topicCounts || b.Topic == topicOut) {
			o.w.violated("%s sends records of task %v, which %s runs", p.name, id, nameOf(q))
		}
	}
}

// stranger notes a request that arrives when its process is long dead. Nothing keeps it out (no transaction fences it); rule M8 is about it.
func (o *oracle) stranger(p *process, b modelbroker.ProduceBatch, base int64) {
	o.w.note(p, "foreign write "+b.Topic, task.ID{Partition: b.Partition}, base, int64(len(b.Records)))
	switch b.Topic {
	case topicCounts:
		o.strange[b.Partition] = max(o.strange[b.Partition], base+int64(len(b.Records)))
		o.foreign += len(b.Records)
	case topicOut:
		o.outOfOrder[b.Partition] = true
	}
}

// grows holds a row that is being written to the changelog against the one before it: no record may have gone missing from it.
func (o *oracle) grows(p *process, partition int32, r task.OutRecord) {
	before := o.fold(partition, math.MaxInt64)[string(r.Key)]
	for i := 8; i < len(before); i++ {
		if before[i]&^r.Value[i] != 0 && o.strange[partition] == 0 {
			o.w.violated("%s writes a row of %s with %d records to the changelog, which had one with %d", p.name, r.Key, countIn(r.Value), countIn(before))
			return
		}
	}
}

func (o *oracle) count(tp task.TopicPartition, r task.OutRecord) {
	switch tp.Topic {
	case topicIn:
		o.input[recordID(r.Value)] = true
	case topicWords:
		o.split[recordID(r.Value)] = true
	case topicCounts:
		for id := range o.w.cfg.Records {
			if has(r.Value, id) {
				o.counted[id] = true
			}
		}
	}
}

// committed holds a commit against S2, and against what has been done with the records below it.
func (o *oracle) committed(c modelbroker.Commit) {
	tp := c.TopicPartition
	p := o.members[c.MemberID]
	o.w.note(p, "committed "+tp.Topic, task.ID{Partition: tp.Partition}, c.Before, c.Offset)
	if c.Offset < c.Before {
		o.w.violated("the committed offset of %v goes back from %d to %d", tp, c.Before, c.Offset)
	}
	id, done := task.ID{Subtopology: 0, Partition: tp.Partition}, o.split
	if tp.Topic == topicWords {
		id.Subtopology, done = 1, o.counted
	}
	for _, q := range o.runs[id] {
		if q != p && !q.drowsy() {
			o.w.violated("%v is committed by a member that does not run task %v, %s does", tp, id, q.name)
		}
	}
	log := o.logs[tp]
	for at := max(c.Before, 0); at < min(c.Offset, int64(len(log))); at++ {
		if log[at].value == nil {
			continue // a marker
		}
		if n := recordID(log[at].value); !done[n] {
			o.w.violated("%v is committed up to %d, but record %d at %d left no trace", tp, c.Offset, n, at)
		}
	}
	if c.Offset > int64(len(log)) {
		if _, end := o.w.broker.Log(tp); c.Offset > end {
			o.w.violated("%v is committed up to %d, its end is %d", tp, c.Offset, end)
		}
	}
}

// drowsy says that a process is paused, or was a moment ago: it may not know yet what has happened meanwhile.
func (p *process) drowsy() bool { return p.w.now.Before(p.host.woke.Add(slack)) }

// running notes that a task's owner may process from now on, and holds that against S1.
func (o *oracle) running(p *process, id task.ID) {
	if p.suspended {
		o.w.violated("%s begins to run task %v on a full disk", p.name, id)
	}
	for _, q := range o.runs[id] {
		if q == p {
			return
		}
		if !q.drowsy() {
			o.w.violated("%s begins to run task %v while %s runs it", p.name, id, q.name)
		}
	}
	o.runs[id] = append(o.runs[id], p)
	o.last[id] = p
}

func (o *oracle) stopped(p *process, id task.ID) {
	for i, q := range o.runs[id] {
		if q == p {
			o.runs[id] = append(o.runs[id][:i:i], o.runs[id][i+1:]...)
			return
		}
	}
}

// processed holds a unit against S1: nobody else runs the task, unless one of the two has slept.
func (o *oracle) processed(p *process, env *task.Env, last *int64) {
	id := env.ID()
	o.follows(p, env, last)
	mine := false
	for _, q := range o.runs[id] {
		mine = mine || q == p
		if q != p && !q.drowsy() && !p.drowsy() {
			o.w.violated("%s and %s both run task %v", p.name, q.name, id)
		}
	}
	if !mine {
		o.w.violated("%s processes a record of task %v, which it does not run", p.name, id)
	}
}

// follows holds the order of the records of a partition: each once in a life of its task, none left out but markers.
func (o *oracle) follows(p *process, env *task.Env, last *int64) {
	topic, partition, offset := env.Source()
	log := o.logs[task.TopicPartition{Topic: topic, Partition: partition}]
	for at := *last + 1; *last >= 0 && at < offset; at++ {
		if log[at].value != nil {
			o.w.violated("%s: task %v takes offset %d after %d", p.name, env.ID(), offset, *last)
			return
		}
	}
	if offset <= *last {
		o.w.violated("%s: task %v takes offset %d after %d", p.name, env.ID(), offset, *last)
	}
	*last = offset
}

func (o *oracle) ended(p *process) {
	for id := range o.runs {
		o.stopped(p, id)
	}
}

func (o *oracle) noticed(p *process, n engine.Notice) {
	if n.Kind == engine.NoticeAssigned {
		if n.Generation <= p.generation {
			o.w.violated("%s applies generation %d after %d", p.name, n.Generation, p.generation)
		}
		p.generation = n.Generation
	}
	if n.Kind == engine.NoticeForeignWriter {
		o.strange[n.Part.Partition] = max(o.strange[n.Part.Partition], n.End)
	}
	o.suspension(p, n.Kind)
	o.w.noteText(p, string(n.Kind), notice(n))
}

// applied holds a store against its changelog whenever something was written to it. What compaction has taken out is missing in the middle of
// a restore.
func (o *oracle) applied(p *process, a engine.Apply, s *openStores) {
	if !a.Bulk || !o.compacted {
		o.matches(p, a.Task, s)
	}
}

// restored holds a store against its changelog when its task begins to run.
func (o *oracle) restored(p *process, id task.ID, s *openStores) { o.matches(p, id, s) }

func (o *oracle) matches(p *process, id task.ID, s *openStores) {
	position := max(s.Position(0), 0)
	if position < o.strange[id.Partition] {
		return // rule M8: the position stays before what somebody else wrote, the rows go on
	}
	want := o.fold(id.Partition, position)
	got := rows(s.Reader(0))
	if len(want) != len(got) {
		o.w.violated("%s: the store of task %v at %d has %d rows, its changelog makes %d", p.name, id, position, len(got), len(want))
	}
	for key, value := range want {
		if !bytes.Equal(got[key], value) {
			o.w.violated("%s: a row in the store of task %v at %d is not that of its changelog: count %d, not %d",
				p.name, id, position, countIn(got[key]), countIn(value))
			return
		}
	}
}

// fold is what the changelog says that a store holds at a position.
func (o *oracle) fold(partition int32, position int64) map[string][]byte {
	log := o.logs[task.TopicPartition{Topic: topicCounts, Partition: partition}]
	m := map[string][]byte{}
	for _, r := range log[:min(position, int64(len(log)))] {
		if r.value != nil {
			m[r.key] = r.value
		}
	}
	return m
}

func rows(r statestore.Reader) map[string][]byte {
	m := map[string][]byte{}
	it := r.Scan(nil, nil, false)
	defer it.Close()
	for it.Next() {
		m[string(it.Key())] = it.Row().Value
	}
	return m
}

func countIn(row []byte) int {
	if len(row) < 8 {
		return 0
	}
	return countOf(row)
}
