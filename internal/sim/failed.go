package sim

import (
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// failed is what the oracle knows of records that fail.
type failed struct {
	o      *oracle
	emits  numbers               // records that are in the output
	dead   map[retry.Origin]bool // dead letters that are in their topic
	letter map[int]bool          // records that have one
}

func (f *failed) init(o *oracle) {
	*f = failed{o: o, emits: newNumbers(o.w), dead: map[retry.Origin]bool{}, letter: map[int]bool{}}
}

// appended follows what says that a record was dealt with.
func (f *failed) appended(p *process, tp task.TopicPartition, r task.OutRecord) {
	switch tp.Topic {
	case topicOut:
		f.emits.addRow(r.Value)
	case topicDead:
		f.died(p, tp, r)
	case topicParked:
		f.parked(p, tp, r)
	}
}

// died holds that only a record that may fail for good gets a dead letter, and that the letter says whose it is.
func (f *failed) died(p *process, tp task.TopicPartition, r task.OutRecord) {
	w, id := f.o.w, recordID(r.Value)
	headers := make([]retry.Header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = retry.Header(h)
	}
	l, _, ok := retry.ParseLetter(headers)
	log := f.o.logs[task.TopicPartition{Topic: l.Topic, Partition: l.Partition}]
	switch {
	case !ok || l.Topic != topicWords || l.Offset >= int64(len(log)) || recordID(log[l.Offset].value) != id:
		w.violatedAt(tp, "%s writes a dead letter of record %d, which says that it is of %v", nameOf(p), id, l.Origin)
	case !w.failing.mayFail(id) && (l.Class != string(task.KindCrash) || !w.failing.deadly):
		w.violatedAt(tp, "%s writes a dead letter of record %d, which can be counted", nameOf(p), id)
	case w.failing.set.Then != retry.EndDeadLetter:
		w.violatedAt(tp, "%s writes a dead letter of record %d, and the policy has none", nameOf(p), id)
	}
	w.saw(RecordDead)
	if l.Class == string(task.KindCrash) && w.failing.fates[id].kind == deadly {
		w.saw(CrashDead)
	}
	f.dead[l.Origin], f.letter[id] = true, true
}

// parked holds that what was put aside is deleted only when what became of it is there.
func (f *failed) parked(p *process, tp task.TopicPartition, r task.OutRecord) {
	o, payload, err := retry.ParseKey(r.Key)
	words := task.TopicPartition{Topic: o.Topic, Partition: o.Partition}
	log := f.o.logs[words]
	switch {
	case err != nil || o.Topic != topicWords || o.Partition != tp.Partition || o.Offset >= int64(len(log)):
		f.o.w.violatedAt(tp, "%s writes a row of a record that was put aside, which says that it is of %v: %v", nameOf(p), o, err)
	case r.Value != nil:
		if payload {
			f.o.w.saw(RecordParked)
		}
	default:
		id := recordID(log[o.Offset].value)
		if !f.done(words, o.Offset, id) && (!f.byStranger(tp, r.Key) || f.o.claimed(words, o.Offset)) {
			f.o.w.violatedAt(tp, "%s deletes that record %d at %d is put aside, and it left no trace", nameOf(p), id, o.Offset)
		}
		if !payload && f.o.counted.has(id) {
			f.o.w.saw(RecordRecovered)
		}
	}
}

// byStranger says that a row was last written by one who did not run the task: its owner, who knows nothing of it, takes it back. That is no loss
// as long as no commit says that the record is done: whoever goes on there takes it.
func (f *failed) byStranger(tp task.TopicPartition, key []byte) bool {
	log := f.o.logs[tp]
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].record && log[i].key == string(key) {
			return log[i].strange
		}
	}
	return false
}

// done says that what became of a record is in the logs: its count and the output of it, or its dead letter, if it may not just vanish.
func (f *failed) done(words task.TopicPartition, at int64, id int) bool {
	w := f.o.w
	switch {
	case f.o.counted.has(id) && f.emits.has(id):
		return true
	case f.dead[retry.Origin{Topic: words.Topic, Partition: words.Partition, Offset: at}]:
		return true
	}
	return w.failing.mayVanish(id)
}

// isParked says that a record is put aside, as its changelog has it.
func (f *failed) isParked(words task.TopicPartition, at int64) bool {
	c := f.o.parkedOf[words.Partition]
	rows := c.fold(nil, int64(len(f.o.logs[c.tp])))
	o := retry.Origin{Topic: words.Topic, Partition: words.Partition, Offset: at}
	return rows[string(retry.AppendEntryKey(nil, o))] != nil && rows[string(retry.AppendPayloadKey(nil, o))] != nil
}

// mayMiss says that a record may be missing from the counts in the end for having failed.
func (f *failed) mayMiss(id int) bool {
	return f.letter[id] || f.o.w.failing.mayVanish(id)
}

// asideIn is what is put aside in the stores of a task; nil if there are none.
func (w *world) asideIn(s statestore.TaskStores) map[string][]byte {
	if s == nil || !w.failing.aside() {
		return nil
	}
	return rows(s.Reader(storeParked))
}

// counting is what the oracle knows of one life of a task that counts.
type counting struct {
	*paths
	loaded map[int64]bool   // records that were put aside before
	front  int64            // the furthest that was tried by the main path
	behind int64            // and by the second one
	done   map[int64]bool   // counted in this life
	last   map[string]int64 // of each word, the furthest that was counted
	due    map[int64]due
}

// due is when a record asked to be tried again, by the clock of its host.
type due struct {
	at   int64 // ms
	skew int64
}

// newCounting begins with what is put aside.
func newCounting(life *paths, aside map[string][]byte) *counting {
	c := &counting{paths: life, loaded: map[int64]bool{}, front: -1, behind: -1, done: map[int64]bool{}, last: map[string]int64{}, due: map[int64]due{}}
	for key := range aside {
		if o, payload, err := retry.ParseKey([]byte(key)); err == nil && !payload {
			c.loaded[o.Offset] = true
		}
	}
	return c
}

// lifeOf is the life that the nodes are made for, and whether they are a worker's, who does not know whether it counts what it does.
func (p *process) lifeOf() (c *counting, beside bool) {
	t, beside := p.Starting()
	if t != nil {
		if r := p.runs[t.Key]; r != nil && r.counting != nil {
			return r.counting, beside
		}
	}
	return newCounting(&paths{}, nil), true // one of the tests of the oracle
}

// tries is a try of a record, and what it comes to.
func (p *process) tries(env *task.Env, c *counting, beside bool, id int) (task.Kind, error) {
	if p.doomed {
		return task.KindProcess, errFlaky // nothing of it happens any more
	}
	o := &p.w.oracle
	_, _, offset := env.Source()
	aside := !beside && (offset < *c.frontOf(offset) || c.loaded[offset])
	if !beside || !c.over { // what a worker does when its task is given up counts for nothing
		o.runsAlone(p, env.ID())
	}
	o.failed.tried(p, env, c, beside)
	kind, err := p.w.meets(p, id, aside)
	if beside { // what comes of it is the task's to say
		return kind, err
	}
	if k := p.w.failing.fates[id].kind; err != nil && (k == waits || k == named) && err != errDown {
		c.due[offset] = due{env.WallClock() + asked.Milliseconds(), int64(p.host.Skew)}
	}
	return kind, err
}

// tried holds a try against what the life has done so far. Those of workers are in no order, and whether they are done is the task's to say.
func (f *failed) tried(p *process, env *task.Env, c *counting, beside bool) {
	w := f.o.w
	_, _, offset := env.Source()
	switch {
	case c.done[offset]:
		w.violatedTask(env.ID(), "%s: task %v takes offset %d, which it has counted", p.name, env.ID(), offset)
	case offset < c.from && !c.inGap(offset) && !c.loaded[offset]:
		w.violatedTask(env.ID(), "%s: task %v takes offset %d, begins at %d, and it was not put aside", p.name, env.ID(), offset, c.from)
	}
	if d, ok := c.due[offset]; ok && d.skew == int64(p.host.Skew) && env.WallClock() < d.at {
		w.violatedTask(env.ID(), "%s: task %v takes offset %d %d ms too early", p.name, env.ID(), offset, d.at-env.WallClock())
	}
	if beside {
		return
	}
	if !w.failing.aside() {
		f.inOrder(p, env, c, offset)
	}
	front := c.frontOf(offset)
	*front = max(*front, offset)
}

// frontOf is how far the path of an offset has come.
func (c *counting) frontOf(offset int64) *int64 {
	if c.two() && offset < c.split.Main {
		return &c.behind
	}
	return &c.front
}

// inOrder holds that a record comes behind all others that may come ahead of it.
func (f *failed) inOrder(p *process, env *task.Env, c *counting, offset int64) {
	if offset < c.front {
		f.o.w.violatedTask(env.ID(), "%s: task %v takes offset %d after %d", p.name, env.ID(), offset, c.front)
	}
	topic, partition, _ := env.Source()
	log := f.o.logs[task.TopicPartition{Topic: topic, Partition: partition}]
	for at := max(c.front, c.from); at < offset; at++ {
		if log[at].record && !c.done[at] && !f.o.w.failing.mayEnd(recordID(log[at].value)) {
			f.o.w.violatedTask(env.ID(), "%s: task %v takes offset %d, and has not done %d", p.name, env.ID(), offset, at)
		}
	}
}

// counts notes that a record was counted, and holds that against those of its word.
func (o *oracle) counts(p *process, env *task.Env, c *counting, word string) {
	_, _, offset := env.Source()
	c.done[offset] = true
	if last, ok := c.last[word]; ok && last > offset && o.w.failing.set.Mode != retry.ModeParallel {
		o.w.violatedTask(env.ID(), "%s: task %v counts %s at %d after that at %d", p.name, env.ID(), word, offset, last)
	}
	c.last[word] = max(c.last[word], offset)
	delete(c.due, offset)
}
