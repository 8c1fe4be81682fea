package task

import (
	"fmt"
	"strconv"

	"github.com/understudy-streams/understudy/retry"
)

// A record that was put aside may end the process with it as well. While crashes are suspected each is run behind a commit of its entry that
// says how often that was begun: what the entry says of a failure is written over by a try that comes back. From the first of these commits to the
// one after the try nothing else is taken, of this task, and where it has cost a process no other suspect of the process either: whatever ended the
// process then would count against the entry.

// onTrial says whether a record put aside may be run now. If not, a commit comes first, or the record has been ended.
func (t *Task) onTrial(item *retry.Item) bool {
	s := &t.failure.suspects
	if !s.active || s.trial == item {
		return true
	}
	begun := 0
	if item.Kind == string(KindCrash) {
		begun, _ = strconv.Atoi(item.Class)
	}
	if begun >= max(t.failure.set.Crashes, 1) {
		t.endTrial(item, begun)
		return false
	}
	if begun > 0 && t.cfg.Turn != nil && !t.takeTurn() {
		t.holdOff(t.now+turnWait, waitsForTurn)
		return false
	}
	item.Kind, item.Class = string(KindCrash), strconv.Itoa(begun+1)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.putEntry(item, "it is being tried, and what was tried before has ended the process")
	if !t.end() {
		return false
	}
	s.trial = item
	t.commitFirst()
	return false
}

// trialOver notes that a record put aside has come back from a try: its entry is to say that before anything else is taken.
func (t *Task) trialOver(item *retry.Item) {
	if s := &t.failure.suspects; s.trial == item && item != nil {
		s.trial = nil
		t.commitFirst()
	}
}

// names says that the last commit names a record of the main path, which nothing that was put aside is to run before: else what ends the process
// then would count against it. Where the main path itself waits for what was put aside it does not matter.
func (t *Task) names() bool {
	s := &t.failure.suspects
	if !s.active || t.failure.pool.ahead() {
		return false
	}
	for i := range s.inputs {
		if in := &s.inputs[i]; in.named >= 0 && in.named >= t.low(i) {
			return true
		}
	}
	return false
}

// endTrial ends a record put aside in the middle of which the process has died too often.
func (t *Task) endTrial(item *retry.Item, deaths int) {
	set := &t.failure.set
	err := &Error{
		Task: t.cfg.ID, Topic: item.Topic, Partition: item.Partition, Offset: item.Offset, Kind: KindCrash, Attempts: item.Attempt + 1,
		Err: fmt.Errorf("the process has died %d times in the middle of this record", deaths),
	}
	t.note(Note{Kind: NoteSuspect, Err: err, Attempt: deaths})
	t.failure.pool.index.Start(item)
	d := retry.Decision{Verdict: retry.Ended, End: set.Then, Class: string(KindCrash)}
	if set.Then == retry.EndStop {
		t.comesAgain(item)
		t.stop(err)
		return
	}
	t.endRetry(item, err, d)
}
