package shell

import "github.com/understudy-streams/understudy/task"

// lines are those of the items that workers wait to run, one for each path. What is new goes before what is of a gap, or was put aside, but where it
// never ends they get on as well; and neither of them ever takes all workers, nor the two more than all but one where there are three: what comes
// does not wait for a call to return.
type lines struct {
	of    [task.RetryPath + 1]line
	fresh int // items of the main path that were taken since the last of another one, while some waited
}

// line is what waits, and how much of it runs.
type line struct {
	queue   []handed
	running int
}

// freshPerBehind is how many items of the main path are taken for each of another one while there are both.
const freshPerBehind = 3

// next is the line whose first item is taken next, nil where none may be.
func (ls *lines) next(most int) *line {
	main, behind := &ls.of[task.MainPath], ls.behind(most)
	switch {
	case behind != nil && (len(main.queue) == 0 || ls.fresh >= freshPerBehind):
		return behind
	case len(main.queue) > 0:
		return main
	}
	return nil
}

// behind is the line other than the main one whose first item may run now, of two the one that has less of the workers.
func (ls *lines) behind(most int) (next *line) {
	gap, retries := &ls.of[task.GapPath], &ls.of[task.RetryPath]
	if gap.running+retries.running >= max(most-1, 2) {
		return nil
	}
	for _, l := range []*line{gap, retries} {
		if len(l.queue) > 0 && l.running < most-1 && (next == nil || l.running < next.running) {
			next = l
		}
	}
	return next
}

// took notes from which line a worker has taken an item.
func (ls *lines) took(l *line) {
	switch gap, retries := &ls.of[task.GapPath], &ls.of[task.RetryPath]; l {
	case gap, retries:
		ls.fresh = 0
	case &ls.of[task.MainPath]:
		if len(gap.queue)+len(retries.queue) > 0 {
			ls.fresh++
		}
	}
}
