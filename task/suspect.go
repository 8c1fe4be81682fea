package task

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/retry"
)

// A record that ends the process with it cannot be caught by a policy. What the commits say tells of it: each runner of a task commits that it
// runs, whoever comes after one that did not end counts that as a start, and after two starts without progress a record is taken alone, behind
// a commit that names it.

// suspects is what is known of crashes.
type suspects struct {
	active bool // records are looked at before they are taken
	starts int  // without progress, this one included, after ends that were none
	says   bool // the last commit that was made, or will be, says that the task runs
	pieces int  // of carefulRecords that are to be committed one by one
	inputs []suspectInput
	from   []int64     // where this life began
	trial  *retry.Item // the record put aside whose entry has been, or is being, committed as tried
	turn   bool        // no other task of the process runs a suspect
}

type suspectInput struct {
	single int64 // one record at a time below this offset
	bound  int64 // nothing at or beyond this offset before the next commit
	named  int64 // the record that the last commit names
	died   int64 // the record in the middle of which the process died before; -1 for none
	deaths int   // how often
	waited bool  // before that one is taken again
}

const (
	carefulStarts  = retry.CarefulStarts // from so many starts without progress on little is taken at once
	carefulRecords = 1000                // offsets
	carefulPieces  = 100
	carefulWait    = 1000 // ms at most for each death: so that tasks of a process, of which one has killed it, are not in the middle of a record at the same moment again
)

// loadSuspects takes in what the last commits say.
func (t *Task) loadSuspects() {
	s := &t.failure.suspects
	s.inputs = make([]suspectInput, len(t.in.all))
	s.from = append([]int64(nil), t.commit.low...)
	crashed := false
	for i := range s.inputs {
		in := &s.inputs[i]
		in.named, in.died = -1, -1
		if i >= len(t.cfg.Committed) {
			continue
		}
		m := &t.cfg.Committed[i]
		t.restored(i, m)
		s.starts = max(s.starts, m.Starts)
		if m.Suspect >= t.commit.positions[i] {
			in.died, in.deaths, in.single = m.Suspect, m.Deaths, m.Suspect+1
		}
		if len(m.Holes) == 0 {
			in.single = max(in.single, m.Main)
		}
		crashed = crashed || m.Running
		if m.Running && in.died >= 0 {
			in.deaths++
		}
	}
	t.commit.wanted = t.cfg.Announce
	if crashed {
		s.starts++
		s.says = true
		t.commit.wanted, t.commit.blocked = true, true // a start counts before the first record
	}
	for i := range s.inputs {
		in := &s.inputs[i]
		if s.starts >= carefulStarts && i < len(t.cfg.Committed) && t.in.all[i].window != nil {
			in.single = max(in.single, t.cfg.Committed[i].Main) // where records are done in any order one death alone says little
		}
		if s.starts >= carefulStarts || in.single > t.commit.positions[i] {
			s.active, s.pieces = true, carefulPieces
		}
		if in.single <= t.commit.positions[i] && s.starts >= carefulStarts {
			in.bound = t.commit.positions[i] + carefulRecords
		}
	}
}

// restored takes in what the last commit says of an input besides crashes.
func (t *Task) restored(i int, m *retry.Metadata) {
	head := i
	if t.gap(i) != nil {
		head += len(t.in.all) // what is open is the gap's, and it is the first of it
	} else if len(m.Holes) > 0 {
		t.in.all[i].window = retry.Restore(t.commit.positions[i], m.Main, m.Holes)
	}
	if m.Head != nil {
		t.failure.tries[head] = tries{offset: t.commit.low[i], attempt: m.Head.Attempt, first: m.Head.First, due: m.Head.Due, wait: m.Head.Wait}
		t.failure.troubled = true
	}
	if m.Head != nil && head == i { // who waits for the head of a gap is not the main path
		t.failure.awaitHead(m.Head)
	}
}

// awaitHead takes over the wait of a record that another runner has tried. That is kept to, however long an error has asked for, but its times may
// be of a clock that was wrong, or was set: no wait is longer than it was to be when the record failed, nor than the record may become old. The
// first failure may be of a third clock, so it says nothing about the wait.
func (f *failure) awaitHead(h *retry.Head) {
	if h.Due <= f.until {
		return
	}
	most := longestWait
	if f.set.MaxAge > 0 {
		most = f.set.MaxAge.Milliseconds()
	}
	f.until, f.long = h.Due, min(h.Wait, most)
}

// longestWait bounds, in milliseconds, what is waited for after a restart where a record may become as old as it likes: a week.
const longestWait = int64(7 * 24 * time.Hour / time.Millisecond)

// suspectAllows says whether the record at the head may be taken now. If not, a commit comes first, or the record has been ended.
func (t *Task) suspectAllows(i int, r *Record) bool {
	s := &t.failure.suspects
	if !s.active {
		return true
	}
	in := &s.inputs[i]
	switch {
	case r.Offset < in.single:
		return t.alone(i, in, r)
	case s.pieces <= 0:
		s.active = false
		t.guard()
		return true
	case in.bound == 0 || r.Offset >= in.bound:
		in.bound = r.Offset + carefulRecords
		in.named = -1
		s.pieces--
		t.commitFirst()
		return false
	}
	return true
}

// commitFirst lets nothing be taken before a commit.
func (t *Task) commitFirst() { t.commit.wanted, t.commit.blocked = true, true }

// alone takes a record by itself, behind a commit that names it. One that has been named at too many deaths has failed for good.
func (t *Task) alone(i int, in *suspectInput, r *Record) bool {
	set := &t.failure.set
	if r.Offset == in.died && in.deaths >= max(set.Crashes, 1) {
		err := &Error{
			Task: t.cfg.ID, Topic: t.cfg.Spec.Inputs[i].Topic, Partition: t.cfg.ID.Partition, Offset: r.Offset, Kind: KindCrash, Attempts: in.deaths,
			Err: fmt.Errorf("the process has died %d times in the middle of this record", in.deaths),
		}
		t.note(Note{Kind: NoteSuspect, Err: err, Attempt: in.deaths})
		t.failure.tries[i] = tries{offset: r.Offset, first: t.now}
		t.endFresh(t.head(i, r), err, retry.Decision{Verdict: retry.Ended, End: set.Then, Class: string(KindCrash)})
		if t.err != nil { // who starts it again wants it to be tried again
			in.died, in.deaths, t.failure.suspects.starts = -1, 0, 0
		}
		return false
	}
	if r.Offset == in.died && t.cfg.Turn != nil {
		if !t.takeTurn() {
			t.holdOff(t.now+turnWait, waitsForTurn)
			return false
		}
	} else if r.Offset == in.died && !in.waited {
		in.waited = true
		t.holdOff(t.now+int64(t.failure.random()%uint64(min(in.deaths, 3)*carefulWait+1)), "a process has died in the middle of a record, and others of it may be suspected")
		return false
	}
	if in.named == r.Offset {
		t.failure.troubled = true // its end is to be noted
		return true
	}
	in.named = r.Offset
	t.commitFirst()
	return false
}

const (
	turnWait     = 50 // ms before a task asks for its turn again
	waitsForTurn = "another task of the process runs a record in the middle of which a process has died, as it has of this one"
)

// takeTurn asks for the turn to run a suspect. Of tasks that have died together one at a time is in the middle of one, so that the next death
// counts against no innocent record a second time.
func (t *Task) takeTurn() bool {
	s := &t.failure.suspects
	s.turn = s.turn || t.cfg.Turn(t.cfg.ID, true)
	return s.turn
}

// passTurn gives the turn back when the commits name no record of this task any more.
func (t *Task) passTurn() {
	s := &t.failure.suspects
	if !s.turn || s.trial != nil && !t.dead {
		return
	}
	for i := range s.inputs {
		if s.inputs[i].named >= 0 && !t.dead {
			return
		}
	}
	s.turn = false
	t.cfg.Turn(t.cfg.ID, false)
}

// survived notes that records were processed while crashes are suspected of some: the commit that names one is followed by another at once, or
// a process that is killed while nothing comes would count against the last one.
func (t *Task) survived() {
	for i := range t.failure.suspects.inputs {
		in := &t.failure.suspects.inputs[i]
		if in.named >= 0 && in.named < t.low(i) {
			in.named = -1
			t.commit.wanted = true
		}
	}
}

// cameBack notes that a record has failed with an error: it did not end the process, and is no suspect before it is tried again.
func (t *Task) cameBack(i int, offset int64) {
	s := &t.failure.suspects
	if in := &s.inputs[i]; s.active && in.named == offset {
		in.named = -1
		if in.died == offset {
			in.died, in.deaths = -1, 0
		}
		t.commit.wanted = true
	}
}

// unname notes that the main path waits for what was put aside: the record that the last commit names is not taken now.
func (t *Task) unname() {
	s := &t.failure.suspects
	for i := range s.inputs {
		if in := &s.inputs[i]; s.active && in.named >= 0 {
			in.named = -1
			t.commit.wanted = true
		}
	}
}

// metadata is what the commit says of an input besides its offset.
func (t *Task) metadata(i int, low int64) string {
	f := &t.failure
	s := &f.suspects
	m := retry.Metadata{StreamTime: f.rows.before(t.streamTime), Main: low, Suspect: -1, Running: s.says, Topic: t.topicID(i)}
	if in := &s.inputs[i]; in.died >= 0 && t.doneBefore(i, in.died) {
		in.died, in.deaths = -1, 0
	}
	s.say(&s.inputs[i], &m, low)
	tr := &f.tries[i]
	g := t.gap(i)
	if g != nil {
		tr, m.Main, m.Holes = g.tries, t.in.all[i].position, g.window.Holes(nil)
	}
	if w := t.in.all[i].window; w != nil && (g != nil || w.Open() > 0) {
		m.Main, m.Holes = w.Next(), w.Holes(m.Holes)
	}
	if tr.waits() && tr.offset >= low {
		m.Head = &retry.Head{Attempt: tr.attempt, First: tr.first, Due: tr.due, Wait: tr.wait}
	}
	text, _ := m.Fit(low)
	return text
}

// say says what is known of crashes. A suspicion outlives an end that is one: the next runner knows as much as this one did.
func (s *suspects) say(in *suspectInput, m *retry.Metadata, low int64) {
	m.Starts = s.starts
	if s.active && (s.says || s.starts > 0) {
		m.Main = max(m.Main, in.bound, in.single)
	}
	switch {
	case s.says && s.active && in.named >= low:
		if m.Suspect = in.named; in.named == in.died {
			m.Deaths = in.deaths
		}
	case in.died >= low:
		m.Suspect, m.Deaths = in.died, in.deaths
		if s.says {
			m.Deaths-- // whoever finds this commit counts one more
		}
	}
}

// runs notes whether the commit that is being made says that the task runs, and whether there was progress.
func (t *Task) runs() {
	s := &t.failure.suspects
	s.says = !t.draining && t.err == nil
	for i := range t.in.all {
		if t.low(i) > s.from[i] {
			s.starts = 0
		}
	}
}

// closeWindow forgets the window of an input whose records are taken in their place, when what another runner has left open there is done.
func (t *Task) closeWindow(i int) {
	if q := &t.in.all[i]; t.crew == nil && q.window != nil && q.window.Open() == 0 && q.position >= q.window.Next() {
		q.window = nil
		t.guard()
	}
}

// low is the offset below which everything of an input is done.
func (t *Task) low(i int) int64 {
	low := t.mainLow(i)
	if g := t.gap(i); g != nil {
		low = min(low, g.low())
	}
	return low
}

// mainLow is that of the main path.
func (t *Task) mainLow(i int) int64 {
	q := &t.in.all[i]
	at := q.position
	if tr := &t.failure.tries[i]; tr.waits() {
		at = max(at, tr.offset) // what waits at the head stands at the commit's offset: there is nothing in between
	}
	if q.window == nil {
		return at
	}
	q.window.Pass(at)
	return q.window.Low()
}
