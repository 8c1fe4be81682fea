package shell

// behindLine is the line of the items of gaps, and of those that were put aside. What is new goes before them, but where it never ends they get on
// as well; and they never take all workers, so that what comes does not wait for a call to return.
type behindLine struct {
	queue   []handed
	running int // of their items
	fresh   int // other items that were taken since the last of them, while some waited
}

// freshPerBehind is how many other items are taken for each of these while there are both.
const freshPerBehind = 3

// line is the one whose first item is taken next, nil where none may be.
func (s *workers) line() *[]handed {
	r := &s.behind
	may := len(r.queue) > 0 && r.running < s.most-1
	switch {
	case may && (len(s.queue) == 0 || r.fresh >= freshPerBehind):
		return &r.queue
	case len(s.queue) > 0:
		return &s.queue
	}
	return nil
}

// taken notes that a worker has taken an item from a line, and wakes another one for what may be taken now.
func (s *workers) taken(w *worker, line *[]handed) {
	r := &s.behind
	switch {
	case line == &r.queue:
		w.behind = true
		r.running++
		r.fresh = 0
	case line == &s.queue && len(r.queue) > 0:
		r.fresh++
	}
	if s.line() != nil {
		s.attend()
	}
}

// caughtUp notes that a worker does not run such an item any more.
func (s *workers) caughtUp(w *worker) {
	if w.behind {
		w.behind = false
		s.behind.running--
	}
}
