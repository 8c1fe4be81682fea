package retry

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// world is what outlives a crash: sources, the retry store's changelog, what was sent, and committed offsets.
type world struct {
	rnd       *rand.Rand
	mode      Mode
	rules     rules
	sources   map[string][]*source
	topics    []string
	store     map[string][]byte // the changelog, compacted
	outputs   [][]Origin        // by partition: a key's records go to the same one
	dead      []Origin
	committed map[string]commitOf
	started   int
}

// rules are the parts of the protocol that can be left out, to see whether the test would notice.
type rules struct {
	deletesInTheFirstLeg bool // together with what they follow from
	nothingIsInert       bool // after a restart
	activatedWhereItWas  bool // an entry keeps its Seq when it is found
	allRunAtOnce         bool // followers too
	rowsInAnyOrder       bool // of one leg
	besideTheirKey       bool // a record is taken while another one of its key runs
	overdueIsLeft        bool // an entry stays inert if its record is gone
}

// source is a record of a source.
type source struct {
	Origin
	key   string // empty: none
	fails int    // tries that fail, in each life; with all of them it is a dead letter
	gone  bool   // retention or compaction has taken it
	moot  bool   // it was taken before anything was made of it: nobody can tell what has become of it
}

type commitOf struct {
	low, main int64
	holes     []Run
}

const (
	historyTries = 3
	outputCount  = 3
	keyCount     = 3
)

func newWorld(seed uint64, mode Mode, rules rules) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, uint64(mode))), mode: mode, rules: rules, topics: []string{"a", "b"},
		sources: map[string][]*source{}, store: map[string][]byte{}, outputs: make([][]Origin, outputCount), committed: map[string]commitOf{},
	}
	for _, topic := range w.topics {
		offset := int64(0)
		for range 4 + w.rnd.IntN(12) {
			offset += int64(w.rnd.IntN(3))
			s := &source{Origin: Origin{Topic: topic, Offset: offset}}
			if k := w.rnd.IntN(keyCount + 1); k > 0 {
				s.key = fmt.Sprint(k)
			}
			if w.chance(2) {
				s.fails = w.rnd.IntN(historyTries + 1)
			}
			w.sources[topic] = append(w.sources[topic], s)
			offset++
		}
		w.committed[topic] = commitOf{}
	}
	return w
}

func (w *world) chance(in int) bool { return w.rnd.IntN(in) == 0 }

func (w *world) source(o Origin) *source {
	all := w.sources[o.Topic]
	i := slices.IndexFunc(all, func(s *source) bool { return s.Origin == o })
	return all[i]
}

// take lets retention have a record. What was neither sent nor put aside then is nobody's fault.
func (w *world) take() {
	all := w.sources[w.topics[w.rnd.IntN(len(w.topics))]]
	s := all[w.rnd.IntN(len(all))]
	if s.gone {
		return
	}
	s.gone = true
	_, entry := w.store[string(AppendEntryKey(nil, s.Origin))]
	_, payload := w.store[string(AppendPayloadKey(nil, s.Origin))]
	c := w.committed[s.Topic]
	done := !Restore(c.low, c.main, c.holes).IsOpen(s.Offset)
	s.moot = !done && !(entry && payload)
}

// lost are the records of which nothing was made.
func (w *world) lost() (lost []Origin) {
	for _, topic := range w.topics {
		for _, s := range w.sources[topic] {
			made := slices.Contains(w.dead, s.Origin)
			for _, out := range w.outputs {
				made = made || slices.Contains(out, s.Origin)
			}
			if !made && !s.moot {
				lost = append(lost, s.Origin)
			}
		}
	}
	return lost
}

// unordered are the records that were first sent, or sent for the last time, before one of their partition and key that came earlier. In
// between a crash repeats records, in order. Dead letters are in no order with others, and what retention takes between two lives is not
// repeated.
func (w *world) unordered() (wrong []Origin) {
	for _, out := range w.outputs {
		first, last := map[Origin]int{}, map[Origin]int{}
		var all []*source
		for i, o := range out {
			if _, seen := first[o]; !seen {
				first[o] = i
				all = append(all, w.source(o))
			}
			last[o] = i
		}
		for _, a := range all {
			for _, b := range all {
				same := a.key != "" && a.key == b.key && a.Topic == b.Topic && a.Offset < b.Offset
				if !same || a.gone || b.gone || slices.Contains(w.dead, a.Origin) || slices.Contains(w.dead, b.Origin) {
					continue
				}
				if first[b.Origin] < first[a.Origin] || last[b.Origin] < last[a.Origin] {
					wrong = append(wrong, b.Origin)
				}
			}
		}
	}
	return wrong
}
