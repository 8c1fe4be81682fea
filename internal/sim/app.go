package sim

import (
	"encoding/binary"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

const (
	topicIn     = "in"
	topicWords  = "app-words-repartition"
	topicCounts = "app-counts-changelog"
	topicOut    = "out"
)

func topics() []string { return []string{topicCounts, topicWords, topicIn, topicOut} }

// topology is the application: the word of each input record goes to the words, keyed by it, and there the records of each word are counted.
func (p *process) topology() []*task.Spec {
	split := &task.Spec{
		Subtopology: 0, Inputs: []task.Input{{Topic: topicIn}}, Dests: []task.Dest{{Topic: topicWords}},
		Build: func(env *task.Env) (*task.Graph, error) { return p.splitter(env), nil },
	}
	count := &task.Spec{
		Subtopology: 1, Inputs: []task.Input{{Topic: topicWords, Repartition: true}}, Dests: []task.Dest{{Topic: topicOut}},
		Stores: []task.Store{{Spec: statestore.Spec{Name: "counts"}, Changelog: topicCounts}},
		Build:  func(env *task.Env) (*task.Graph, error) { return p.counter(env), nil },
	}
	return []*task.Spec{split, count}
}

func (p *process) splitter(env *task.Env) *task.Graph {
	last := int64(-1)
	return &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
		p.w.oracle.processed(p, env, &last)
		b := append(env.Tail(), r.Key...)
		env.Send(0, -1, append(b, r.Value...), len(r.Key), len(r.Value), r.Timestamp, nil)
	}}}
}

func (p *process) counter(env *task.Env) *task.Graph {
	store, last := env.Store(0), int64(-1)
	emit := func(key []byte, row statestore.Row) {
		b := append(env.Tail(), key...)
		env.Send(0, -1, append(b, row.Value...), len(key), len(row.Value), row.Timestamp, nil)
	}
	g := &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
		p.w.oracle.processed(p, env, &last)
		row, _, err := store.Get(r.Key)
		if err == nil {
			row = statestore.Row{Value: counted(row.Value, recordID(r.Value), p.w.cfg.Records), Timestamp: max(row.Timestamp, r.Timestamp)}
			err = store.Put(r.Key, row.Value, row.Timestamp)
		}
		if err != nil {
			env.Fail("count", task.KindStore, err)
			return
		}
		if p.w.mood.perUpdate {
			emit(r.Key, row)
		}
	}}}
	if !p.w.mood.perUpdate {
		g.Tables = []task.Table{{Store: 0, Node: "count", Emit: func(key []byte, now statestore.Row, _ bool, _ statestore.Row, _ bool) { emit(key, now) }}}
	}
	return g
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

// The value of an input record is its number.

func recordValue(id int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(id)) }

func recordID(value []byte) int { return int(binary.BigEndian.Uint16(value)) }
