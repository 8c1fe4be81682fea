package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// heal ends the faults: everything that is down comes back, nothing is lost any more; who is paused sleeps on. From now on the run has healTime to become whole.
func (w *world) heal() {
	w.healed, w.Calm = true, true
	w.noteText(nil, "the faults are over", "", ^parts(0))
	for node := range int32(w.cfg.Brokers) {
		if w.Down[node] {
			w.restartBroker(node)
		}
	}
	for _, h := range w.hosts {
		h.hold, h.fails, h.CutOut, h.CutIn = false, 0, w.Now, w.Now
		h.makeRoom()
		h.slow, h.stuck = w.Now, w.Now
		if h.started > 0 || h.wanted {
			h.comeBack()
		}
	}
	w.oracle.rounds.healed()
	w.look(w.Now.Add(w.healTime()))
}

// healTime is how long a run has to become whole. Records that kill have to do that several times, each for a session.
func (w *world) healTime() time.Duration {
	if w.failing.deadly {
		return 4 * healTime
	}
	return healTime
}

// look waits until everything is done, then holds the outcome against the truth.
func (w *world) look(deadline time.Time) {
	missing := w.missing()
	switch {
	case missing == "":
		w.whole = w.Now
		w.oracle.rounds.whole()
		w.judge()
		w.closeAll()
	case w.Now.After(deadline):
		w.violated("not whole %v after the last fault: %s", w.healTime(), missing)
	default:
		w.After(200*time.Millisecond, nil, func() { w.look(deadline) })
	}
}

// missing says what is missing to be whole: everything committed, the group stable, each task running once.
func (w *world) missing() string {
	var out []string
	miss := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if w.source.left > 0 {
		miss("%d records are not written", w.source.left)
	}
	for part := range w.cfg.Parts {
		for _, topic := range []string{topicIn, topicWords} {
			tp := task.TopicPartition{Topic: topic, Partition: part}
			if at, end := w.oracle.reached[tp], int64(len(w.oracle.logs[tp])); at < end {
				miss("%v is committed up to %d of %d", tp, at, end)
			}
		}
		switch n := len(w.asideIn(w.openOf(part))); {
		case !w.stored(part):
			miss("a store of partition %d is behind its changelog", part)
		case n > 0:
			miss("%d records of partition %d are put aside", n, part)
		}
		for sub := range int32(2) {
			if id := (task.ID{Subtopology: sub, Partition: part}); len(w.oracle.runs[id]) != 1 {
				miss("task %v runs %d times", id, len(w.oracle.runs[id]))
			}
		}
	}
	if g := w.Broker.Group(groupName); g.State != modelbroker.Stable || len(g.Members) != w.size() {
		miss("the group is %s with %d members", g.State, len(g.Members))
	}
	for _, h := range w.hosts {
		switch {
		case !h.belongs():
			if h.p != nil {
				miss("%s has not ended", h.name())
			}
		case h.p == nil || !h.p.Engine.Ready():
			miss("%s is not ready", h.name())
		}
	}
	if len(out) == 0 && !w.stable() {
		miss("the last plan is not applied everywhere")
	}
	if w.plans > 0 {
		miss("%d plans are under way", w.plans)
	}
	if len(out) == 0 {
		w.misplaced(miss)
	}
	return strings.Join(out, "; ")
}

// judge compares what was counted with the truth.
func (w *world) judge() {
	calm := len(w.faults) == 0 && w.mood.Loss == 0 && w.seen[RecordRefused] == 0 // whose task goes back to its last commit
	found := map[string]bool{}
	for part := range w.cfg.Parts {
		store := rows(w.openOf(part).Reader(storeCounts))
		for _, word := range slices.Sorted(maps.Keys(store)) {
			found[word] = true
			w.judgeWord("the store", part, word, store[word], calm)
		}
		changelog := w.oracle.logsOf[part].fold(nil, int64(len(w.oracle.logs[counts(part)])))
		for _, word := range slices.Sorted(maps.Keys(changelog)) {
			w.judgeWord("the changelog", part, word, changelog[word], calm)
		}
		if !w.oracle.outOfOrder[part] {
			w.judgeOutput(part, store)
		}
	}
	for id, word := range w.source.word {
		if !found[word] && !w.oracle.mayMiss(id) {
			w.violated("%s was counted nowhere", word)
		}
	}
}

func counts(part int32) task.TopicPartition {
	return task.TopicPartition{Topic: topicCounts, Partition: part}
}

func parkedAt(part int32) task.TopicPartition {
	return task.TopicPartition{Topic: topicParked, Partition: part}
}

// judgeWord holds a row against the truth. What is missing in a store is lost; what is missing in its changelog will be, with the next move.
func (w *world) judgeWord(where string, part int32, word string, row []byte, calm bool) {
	truth := 0
	for id, of := range w.source.word {
		if of == word && has(row, id) {
			truth++
			if w.failing.mustEnd(id) {
				w.violatedAt(counts(part), "record %d of %s is in %s of partition %d, though it never works", id, word, where, part)
			}
		}
		if of == word && !has(row, id) && !w.oracle.mayMiss(id) {
			w.violatedAt(counts(part), "record %d of %s is not in %s of partition %d", id, word, where, part)
		}
	}
	if n := countOf(row); n < truth || calm && n != truth {
		w.violatedAt(counts(part), "%s was counted %d times in %s of partition %d, the truth is %d", word, n, where, part, truth)
	}
}

// mayMiss says that a record may be missing from the counts in the end.
func (o *oracle) mayMiss(id int) bool { return o.failed.mayMiss(id) || o.lost.has(id) }

// judgeOutput holds the last output of each word against the store. The order of outputs is that of the changelog.
func (w *world) judgeOutput(part int32, store map[string][]byte) {
	last := map[string][]byte{}
	for _, r := range w.oracle.logs[task.TopicPartition{Topic: topicOut, Partition: part}] {
		last[r.key] = r.value
	}
	for _, word := range slices.Sorted(maps.Keys(store)) {
		if w.source.truth[word] > 0 && !w.endedOf(word) && !bytes.Equal(last[word], store[word]) {
			w.violatedAt(counts(part), "the last output of %s is %d, the store has %d", word, countIn(last[word]), countOf(store[word]))
		}
	}
}

// endedOf says that a record of a word may have been ended after another owner had counted it and put that out.
func (w *world) endedOf(word string) bool {
	for id, of := range w.source.word {
		if of == word && w.oracle.failed.mayMiss(id) {
			return true
		}
	}
	return false
}

// openOf are the stores of the task of a partition, at whoever runs it; nil if they are not open.
func (w *world) openOf(part int32) statestore.TaskStores {
	id := task.ID{Subtopology: 1, Partition: part}
	for _, p := range w.oracle.runs[id] {
		for key, s := range p.Stores {
			if key.Task == id {
				return s
			}
		}
	}
	return nil
}

// stored says whether who runs the task of a partition has in its store what its changelog says, if it does not end with records of a
// stranger: he does not know of those before he writes himself.
func (w *world) stored(part int32) bool {
	s := w.openOf(part)
	if s == nil {
		return false
	}
	for _, c := range w.oracle.changelogs(part) {
		log := w.oracle.logs[c.tp]
		n := len(log)
		if n > 0 && !log[n-1].strange && differs(s.Reader(c.store), c.fold(nil, int64(n))) {
			return false
		}
	}
	return true
}

// closeAll ends all processes; the group must be empty afterwards.
func (w *world) closeAll() {
	w.ending = true
	for _, h := range w.hosts {
		h.wanted = false
		if h.p != nil {
			h.p.shut(10 * time.Second)
		}
	}
	w.awaitEnd(w.Now.Add(20 * time.Second))
}

func (w *world) awaitEnd(deadline time.Time) {
	running := slices.ContainsFunc(w.hosts, func(h *host) bool { return h.p != nil })
	g := w.Broker.Group(groupName)
	switch {
	case !running && len(g.Members) == 0:
		w.oracle.over = true
	case w.Now.After(deadline):
		w.violated("not ended in 20 s: running %v, members %d", running, len(g.Members))
	default:
		w.After(50*time.Millisecond, nil, func() { w.awaitEnd(deadline) })
	}
}
