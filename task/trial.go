package task

import (
	"fmt"
	"strconv"

	"github.com/understudy-streams/understudy/retry"
)

// A record that was put aside may end the process with it as well. While crashes are suspected each is run behind a commit of its entry that
// says how often that was begun: what the entry says of a failure is written over by a try that comes back.

// onTrial says whether a record put aside may be run now. If not, a commit comes first, or the record has been ended.
func (t *Task) onTrial(item *retry.Item) bool {
	s := &t.failure.suspects
	if !s.active {
		return true
	}
	if _, committed := s.trials[item]; committed {
		delete(s.trials, item)
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
	item.Kind, item.Class = string(KindCrash), strconv.Itoa(begun+1)
	t.begin(-1, -1)
	t.unit.node = "retry store"
	t.putEntry(item, "it is being tried, and what was tried before has ended the process")
	if !t.end() {
		return false
	}
	if s.trials == nil {
		s.trials = make(map[*retry.Item]struct{})
	}
	s.trials[item] = struct{}{}
	t.commitFirst()
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
		t.failure.pool.index.Again(item)
		t.stop(err)
		return
	}
	t.endRetry(item, err, d)
}
