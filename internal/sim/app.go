package sim

import (
	"encoding/binary"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

const (
	topicIn     = "in"
	topicWords  = "app-words-repartition"
	topicCounts = "app-counts-changelog"
	topicOut    = "out"
	topicParked = "app-words-retry"
	topicDead   = "app-words-dlq"
)

func topics() []string {
	return []string{topicCounts, topicWords, topicIn, topicOut, topicParked, topicDead}
}

// topology is the application: the word of each input record goes to the words, keyed by it, and there the records of each word are counted.
func (p *process) topology() []*task.Spec {
	split := &task.Spec{
		Subtopology: 0, Inputs: []task.Input{{Topic: topicIn}}, Dests: []task.Dest{{Topic: topicWords}},
		Build: func(env *task.Env) (*task.Graph, error) { return p.splitter(env), nil },
	}
	count := &task.Spec{
		Subtopology: 1, Inputs: []task.Input{{Topic: topicWords, Repartition: true, DeadLetters: 2}}, Dests: []task.Dest{{Topic: topicOut}, {Topic: topicDead}},
		Stores: stores(&p.w.failing), Failure: p.w.failing.policy,
		Build: func(env *task.Env) (*task.Graph, error) { return p.counter(env), nil },
	}
	if p.w.failing.aside() {
		count.Retries = storeParked + 1
	}
	split.Recovers = p.w.recovery.above > 0
	count.Recovers = split.Recovers && p.w.failing.set.Mode == retry.ModeParallel
	return []*task.Spec{split, count}
}

// The stores of subtopology 1.
const (
	storeCounts = iota
	storeParked // only where records are put aside
)

func stores(f *failing) []task.Store {
	all := []task.Store{{Spec: statestore.Spec{Name: "counts"}, Changelog: topicCounts}}
	if f.aside() {
		all = append(all, task.Store{Spec: statestore.Spec{Name: "retry", Ordered: true}, Changelog: topicParked})
	}
	return all
}

func (p *process) splitter(env *task.Env) *task.Graph {
	last := p.pathsOf()
	return &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
		p.w.oracle.processed(p, env, last)
		b := append(env.Tail(), r.Key...)
		env.Send(0, -1, append(b, r.Value...), len(r.Key), len(r.Value), r.Timestamp, nil)
	}}}
}

func (p *process) counter(env *task.Env) *task.Graph {
	store := env.Store(storeCounts)
	life, beside := p.lifeOf()
	emit := func(key []byte, row statestore.Row) {
		b := append(env.Tail(), key...)
		env.Send(0, -1, append(b, row.Value...), len(key), len(row.Value), row.Timestamp, nil)
	}
	g := &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
		id := recordID(r.Value)
		kind, failed := p.tries(env, life, beside, id)
		late := p.w.failing.fates[id].late
		if failed != nil && !late {
			fail(env, kind, failed)
			return
		}
		row, _, err := store.Get(r.Key)
		if err == nil {
			row = statestore.Row{Value: counted(row.Value, id, p.w.cfg.Records), Timestamp: max(row.Timestamp, r.Timestamp)}
			err = store.Put(r.Key, row.Value, row.Timestamp)
		}
		if err != nil {
			env.Fail("count", task.KindStore, err)
			return
		}
		if p.w.mood.perUpdate {
			emit(r.Key, row)
		}
		if p.w.failing.fates[id].kind == poisons { // of a time at which no broker takes it
			env.Send(0, -1, append(append(env.Tail(), r.Key...), r.Value...), len(r.Key), len(r.Value), r.Timestamp+(2*time.Hour).Milliseconds(), nil)
		}
		if failed != nil {
			fail(env, kind, failed)
			return
		}
		if !beside {
			p.w.oracle.counts(p, env, life, string(r.Key))
		}
	}}}
	if !p.w.mood.perUpdate {
		g.Tables = []task.Table{{Store: storeCounts, Node: "count", Emit: func(key []byte, now statestore.Row, _ bool, _ statestore.Row, _ bool) { emit(key, now) }}}
	}
	return g
}

func fail(env *task.Env, kind task.Kind, err error) {
	if kind == task.KindPanic {
		panic(err)
	}
	env.Fail("count", kind, err)
}

// A row is the count in eight bytes, then one bit for each input record.

func counted(row []byte, id, records int) []byte {
	next := make([]byte, 8+(records+7)/8)
	copy(next, row)
	binary.BigEndian.PutUint64(next, binary.BigEndian.Uint64(next)+1)
	next[8+id/8] |= 1 << (id % 8)
	return next
}

func countOf(row []byte) int { return int(binary.BigEndian.Uint64(row)) }

func has(row []byte, id int) bool { return 8+id/8 < len(row) && row[8+id/8]&(1<<(id%8)) != 0 }

// numbers is a set of input records, as a row has it.
type numbers []byte

func newNumbers(w *world) numbers { return make(numbers, (w.cfg.Records+7)/8) }

func (s numbers) has(id int) bool { return s[id/8]&(1<<(id%8)) != 0 }

func (s numbers) add(id int) { s[id/8] |= 1 << (id % 8) }

// addRow adds all records of a row.
func (s numbers) addRow(row []byte) {
	for i := 8; i < len(row); i++ {
		s[i-8] |= row[i]
	}
}

// The value of an input record is its number.

func recordValue(id int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(id)) }

func recordID(value []byte) int { return int(binary.BigEndian.Uint16(value)) }
