package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// slack is how long a process that was paused may go on after it woke: a mailbox may hold work that comes before the end of the lease.
const slack = time.Second

// oracle sees everything and knows what must hold.
type oracle struct {
	w          *world
	over       bool
	logs       map[task.TopicPartition][]written
	members    map[string]*process
	runs       map[task.ID][]*process // whose owners may process the task
	last       map[task.ID]*process   // who was the last to begin to
	input      numbers                // records that are in the input
	split      numbers                // records that are in the words
	counted    numbers                // records that are in the changelog
	lost       numbers                // records of the input that retention took, as a task has told
	compacted  bool
	logsOf     []*changes // the changelogs of counts, by partition
	parkedOf   []*changes // those of records put aside
	failed     failed
	reached    map[task.TopicPartition]int64 // the furthest that was ever committed
	outOfOrder map[int32]bool                // partitions of the output that a stranger wrote to
	rows       map[task.TopicPartition]boardRow
	shownBy    map[readiness]bool
	commits    map[task.TopicPartition]commit // the last of each input
	rounds     rounds
	moves      Moves
	cut        bool                 // the beginning of a changelog went away
	named      map[suspect][]string // memberships whose last commit says that they are in the middle of a record, or were when they ended
}

// commit is what was committed of an input.
type commit struct {
	offset int64
	said   retry.Metadata
}

// claimed says that, as the last commit has it, a record is done.
func (o *oracle) claimed(tp task.TopicPartition, at int64) bool {
	c, ok := o.commits[tp]
	return ok && (at < c.offset || at < c.said.Main && len(c.said.Holes) > 0 && !within(c.said.Holes, at))
}

// written is a record of a topic, or, without one, a transaction marker.
type written struct {
	record  bool
	key     string
	value   []byte
	by      *process
	strange bool // he did not run the task
}

func (o *oracle) init(w *world) {
	*o = oracle{
		w: w, logs: map[task.TopicPartition][]written{}, members: map[string]*process{}, runs: map[task.ID][]*process{},
		last: map[task.ID]*process{}, input: newNumbers(w), split: newNumbers(w), counted: newNumbers(w), lost: newNumbers(w), outOfOrder: map[int32]bool{}, reached: map[task.TopicPartition]int64{},
		rows: map[task.TopicPartition]boardRow{}, shownBy: map[readiness]bool{}, commits: map[task.TopicPartition]commit{}, named: map[suspect][]string{},
	}
	o.rounds.o = o
	o.failed.init(o)
	for part := range w.cfg.Parts {
		o.logsOf = append(o.logsOf, newChanges(o, counts(part), storeCounts))
		o.parkedOf = append(o.parkedOf, newChanges(o, parkedAt(part), storeParked))
	}
}

// request sees a request at the moment at which it is served.
func (o *oracle) request(c *virtual.Call, req modelbroker.Request) {
	r, ok := req.(modelbroker.DeleteRecordsRequest)
	if !ok {
		return
	}
	for _, part := range r.Parts {
		if at := o.reached[part.TopicPartition]; part.Before > at {
			o.w.violatedAt(part.TopicPartition, "%s deletes %v below %d, committed is %d", of(c.Link.Process).name, part.TopicPartition, part.Before, at)
		}
	}
}

// answer sees an answer at the moment at which it is given, before it may be lost.
func (o *oracle) answer(c *virtual.Call, r modelbroker.Response) {
	switch r := r.(type) {
	case modelbroker.JoinGroupResponse:
		if r.MemberID != "" {
			p := of(c.Link.Process)
			o.members[r.MemberID] = p
			p.memberID = r.MemberID
		}
	case modelbroker.SyncGroupResponse:
		if r.Code == kcode.None {
			o.synced(c, r)
		}
	case modelbroker.HeartbeatResponse:
		if p := of(c.Link.Process); p != nil && (r.Code == kcode.None || r.Code == kcode.RebalanceInProgress) {
			p.evicted = time.Time{} // the coordinator that had removed it went before anybody had written that down
		}
	case modelbroker.ProduceResponse:
		batches := c.Req.(modelbroker.ProduceRequest).Batches
		for i, part := range r.Parts {
			switch part.Code {
			case kcode.None:
				o.appended(c, batches[i], part.BaseOffset)
			case kcode.InvalidProducerEpoch:
				o.fenced(of(c.Link.Process), batches[i])
			}
		}
	}
	o.refusals(r)
}

// appended takes a batch into the oracle's own copy of the log. One that was there already is known by its offset.
func (o *oracle) appended(c *virtual.Call, b modelbroker.ProduceBatch, base int64) {
	p, log := of(c.Link.Process), o.logs[b.TopicPartition]
	if base < int64(len(log)) {
		o.w.saw(Retried)
		return
	}
	for int64(len(log)) < base {
		log = append(log, written{}) // transaction markers
	}
	strange := o.strange(c, b)
	if strange {
		o.stranger(p, b, base)
	}
	for _, r := range b.Records {
		log = append(log, written{record: true, key: string(r.Key), value: r.Value, by: p, strange: strange})
		o.count(b.TopicPartition, r)
		o.failed.appended(p, b.TopicPartition, r)
	}
	o.logs[b.TopicPartition] = log
	if !strange && b.Topic == topicCounts {
		o.changes(b.TopicPartition).wrote(p, b)
	}
	if !strange && b.Topic == topicOut {
		o.changes(b.TopicPartition).emitted(p, b)
	}
}

// sent holds a produce request against S1 at the moment at which it is sent: what a task makes leaves the process only while it has the task.
func (o *oracle) sent(p *process, r modelbroker.ProduceRequest) {
	for _, b := range r.Batches {
		id := task.ID{Subtopology: 1, Partition: b.Partition} // counts and their outputs are partitioned by the same key
		if q := o.last[id]; q != p && ofCounts(b.Topic) && !p.mayNotKnow() {
			o.w.violatedAt(b.TopicPartition, "%s sends records of task %v, which %s runs", p.name, id, nameOf(q))
		}
	}
}

func (o *oracle) count(tp task.TopicPartition, r task.OutRecord) {
	switch tp.Topic {
	case topicIn:
		o.input.add(recordID(r.Value))
	case topicWords:
		o.split.add(recordID(r.Value))
	case topicCounts:
		o.counted.addRow(r.Value)
	}
}

// committed holds a commit against S2, and against what has been done with the records below it.
func (o *oracle) committed(c modelbroker.Commit) {
	tp := c.TopicPartition
	p := o.members[c.MemberID]
	o.w.notePart(p, tp, "has committed {b}, after {a}", c.Before, c.Offset)
	if isBoard(tp) {
		o.shown(c)
		return
	}
	o.reached[tp] = max(o.reached[tp], c.Offset)
	switch {
	case c.Offset < c.Before && o.w.Late: // nobody can call back what he has sent; its owner commits more, or what comes after it is done again
		return
	case c.Offset < c.Before:
		o.w.violatedAt(tp, "the committed offset of %v goes back from %d to %d", tp, c.Before, c.Offset)
	}
	id, done := task.ID{Subtopology: 0, Partition: tp.Partition}, func(_ int64, n int) bool { return o.split.has(n) || o.lost.has(n) }
	if tp.Topic == topicWords {
		id.Subtopology = 1
		done = func(at int64, n int) bool { return o.failed.done(tp, at, n) || o.failed.isParked(tp, at) }
	}
	m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
	if err != nil {
		o.w.violatedAt(tp, "a commit of %v says what nobody can read: %v", tp, err)
	}
	o.said(tp, c.Offset, m)
	o.names(c.MemberID, tp, m)
	o.commits[tp] = commit{c.Offset, m}
	for _, q := range o.runs[id] {
		if q != p && !q.drowsy() && !q.abandoned(id) {
			o.w.violatedAt(tp, "%v is committed by a member that does not run task %v, %s does", tp, id, q.name)
		}
	}
	log := o.logs[tp]
	for at := max(c.Before, 0); at < min(c.Offset, int64(len(log))); at++ {
		if !log[at].record {
			continue // a marker
		}
		if n := recordID(log[at].value); !done(at, n) {
			o.w.violatedAt(tp, "%v is committed up to %d, but record %d at %d left no trace", tp, c.Offset, n, at)
		}
	}
	if c.Offset > int64(len(log)) {
		if end := o.w.Broker.End(tp); c.Offset > end {
			o.w.violatedAt(tp, "%v is committed up to %d, its end is %d", tp, c.Offset, end)
		}
	}
}

// drowsy says that a process is paused, or was a moment ago: it may not know yet what has happened meanwhile.
func (p *process) drowsy() bool { return p.w.Now.Before(p.host.woke.Add(slack)) || p.mayNotKnow() }

// abandoned says that a process has given a task up for so long that others may have it, though its owner is in the middle of a step still.
func (p *process) abandoned(id task.ID) bool {
	since, ok := p.abandons[id]
	return ok && p.w.Now.Sub(since) >= 250*time.Millisecond
}

// mayNotKnow says that a process was removed from the group and has not heard of it.
func (p *process) mayNotKnow() bool { return p.w.Now.Before(p.evicted) }

// running notes that a task's owner may process from now on, and holds that against S1.
func (o *oracle) running(p *process, id task.ID) {
	if p.suspended && !p.releases[id] { // else it has not come to what it was told since
		o.w.violatedTask(id, "%s begins to run task %v on a full disk", p.name, id)
	}
	for _, q := range o.runs[id] {
		if q == p {
			return
		}
		if !q.drowsy() && !q.abandoned(id) && !p.drowsy() {
			o.w.violatedTask(id, "%s begins to run task %v while %s runs it", p.name, id, q.name)
		}
	}
	delete(p.abandons, id)
	if !p.drowsy() || !slices.ContainsFunc(o.runs[id], func(q *process) bool { return !q.drowsy() }) {
		o.last[id] = p
	}
	o.runs[id] = append(o.runs[id], p)
}

func (o *oracle) stopped(p *process, id task.ID) {
	for i, q := range o.runs[id] {
		if q == p {
			o.runs[id] = append(o.runs[id][:i:i], o.runs[id][i+1:]...)
			return
		}
	}
}

// processed holds a unit against S1, and the order of records.
func (o *oracle) processed(p *process, env *task.Env, life *paths) {
	o.follows(p, env, life)
	o.runsAlone(p, env.ID())
}

// runsAlone holds a unit against S1: nobody else runs the task, unless one of the two has slept.
func (o *oracle) runsAlone(p *process, id task.ID) {
	mine := false
	for _, q := range o.runs[id] {
		mine = mine || q == p
		if q != p && !q.drowsy() && !p.drowsy() && !p.abandoned(id) && !q.abandoned(id) {
			o.w.violatedTask(id, "%s and %s both run task %v", p.name, q.name, id)
		}
	}
	if !mine {
		o.w.violatedTask(id, "%s processes a record of task %v, which it does not run", p.name, id)
	}
}

// follows holds the order of the records of a partition: each once in a life of its task, none left out but markers, on each of two paths.
func (o *oracle) follows(p *process, env *task.Env, life *paths) {
	topic, partition, offset := env.Source()
	log := o.logs[task.TopicPartition{Topic: topic, Partition: partition}]
	last, first := &life.main, life.from
	gap := life.two() && offset < life.split.Main
	if gap {
		last, first = &life.gap, life.split.Low
	}
	if offset <= *last || offset < first || gap && !life.inGap(offset) {
		o.w.violatedTask(env.ID(), "%s: task %v takes offset %d after %d", p.name, env.ID(), offset, *last)
	}
	start := o.w.Broker.Start(task.TopicPartition{Topic: topic, Partition: partition})
	for at := max(*last+1, first); at < offset; at++ {
		if !log[at].record || !life.open(at) {
			continue
		}
		if at >= start {
			o.w.violatedTask(env.ID(), "%s: task %v takes offset %d after %d", p.name, env.ID(), offset, *last)
			return
		}
		life.skipped = append(life.skipped, at) // retention took it, which has to be told
	}
	*last = offset
}

func (o *oracle) ended(p *process) {
	for id := range o.runs {
		o.stopped(p, id)
	}
}

// told follows which tasks are being released.
func (o *oracle) told(p *process, a engine.ToTask) {
	switch a.Event.(type) {
	case task.Release:
		p.releases[a.Task] = true
		o.pauses(p, a.Task)
	case task.Lost:
		o.ends(p, a.Task, false, true)
		delete(p.releases, a.Task)
		p.abandons[a.Task] = o.w.Now
	case task.Resume:
		o.ends(p, a.Task, true, false)
		delete(p.releases, a.Task)
	case task.Close:
		o.ends(p, a.Task, false, false)
		delete(p.releases, a.Task)
	}
}

func (o *oracle) noticed(p *process, n engine.Notice) {
	if n.Kind == engine.NoticeAssigned {
		if n.Generation <= p.generation {
			o.w.violated("%s applies generation %d after %d", p.name, n.Generation, p.generation)
		}
		p.generation = n.Generation
		if n.Generation > p.evictedAt {
			p.evicted = time.Time{} // it is back
		}
	}
	switch n.Kind {
	case engine.NoticeLost:
		o.w.saw(LeaseOver)
		if p.mayNotKnow() {
			p.evicted = o.w.Now.Add(slack) // its tasks have yet to hear of it
		}
	case engine.NoticeWiped:
		o.w.saw(Outdated)
	case engine.NoticeForeignWriter:
		o.w.saw(Hole)
		if p.releases[n.Task] {
			o.w.saw(HoleAtRelease)
		}
	}
	o.suspension(p, n.Kind)
	o.recovered(p, n)
	o.moved(p, n)
	o.w.traceNotice(p, n)
}

// differs says that a store has other rows than those.
func differs(r statestore.Reader, want map[string][]byte) bool {
	it, n := r.Scan(nil, nil, false), 0
	defer it.Close()
	for ; it.Next(); n++ {
		if value, ok := want[string(it.Key())]; !ok || !bytes.Equal(it.Row().Value, value) {
			return true
		}
	}
	return n != len(want)
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
