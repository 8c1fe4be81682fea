package shell

import "github.com/understudy-streams/understudy/task"

// behind are the lines of the items of gaps, and of those that were put aside. What is new goes before them, but where it never ends they get on as
// well; and neither ever takes all workers, nor the two more than all but one where there are three: what comes does not wait for a call to return.
type behind struct {
	lines [2]line
	fresh int // items of the main path that were taken since the last of these, while some waited
}

// line is what waits of one path, and how much of it runs.
type line struct {
	queue   []handed
	running int
}

// of is the line of a path, nil for the main one.
func (b *behind) of(p task.Path) *line {
	switch p {
	case task.GapPath:
		return &b.lines[0]
	case task.RetryPath:
		return &b.lines[1]
	}
	return nil
}

// next is the line whose first item may run now, of two the one that has less of the workers; nil where there is none.
func (b *behind) next(most int) (next *line) {
	if b.lines[0].running+b.lines[1].running >= max(most-1, 2) {
		return nil
	}
	for i := range b.lines {
		l := &b.lines[i]
		if len(l.queue) > 0 && l.running < most-1 && (next == nil || l.running < next.running) {
			next = l
		}
	}
	return next
}

// freshPerBehind is how many items of the main path are taken for each of these while there are both.
const freshPerBehind = 3

// line is the one whose first item is taken next, nil where none may be.
func (s *workers) line() *[]handed {
	l := s.behind.next(s.most)
	switch {
	case l != nil && (len(s.queue) == 0 || s.behind.fresh >= freshPerBehind):
		return &l.queue
	case len(s.queue) > 0:
		return &s.queue
	}
	return nil
}

// taken notes that a worker has taken an item from a line, and wakes another one for what may be taken now.
func (s *workers) taken(w *worker, from *[]handed) {
	b := &s.behind
	switch {
	case from == &s.queue:
		if len(b.lines[0].queue)+len(b.lines[1].queue) > 0 {
			b.fresh++
		}
	case from != &w.calls:
		for i := range b.lines {
			if l := &b.lines[i]; from == &l.queue {
				w.line = l
				l.running++
				b.fresh = 0
			}
		}
	}
	if s.line() != nil {
		s.attend()
	}
}

// caughtUp notes that a worker does not run such an item any more.
func (s *workers) caughtUp(w *worker) {
	if w.line != nil {
		w.line.running--
		w.line = nil
	}
}
