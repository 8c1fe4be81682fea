package shell

// replayLine is the line of the items of gaps that workers wait to run. What is new goes before them, but where it never ends they get on as
// well; and they never take all workers, so that what comes does not wait for a call to return.
type replayLine struct {
	queue   []handed
	running int // of their items
	fresh   int // other items that were taken since the last of them, while some waited
}

// freshPerReplay is how many other items are taken for each of a gap while there are both.
const freshPerReplay = 3

// line is the one whose first item is taken next, nil where none may be.
func (s *workers) line() *[]handed {
	r := &s.replay
	replays := len(r.queue) > 0 && r.running < s.most-1
	switch {
	case replays && (len(s.queue) == 0 || r.fresh >= freshPerReplay):
		return &r.queue
	case len(s.queue) > 0:
		return &s.queue
	}
	return nil
}

// taken notes that a worker has taken an item from a line, and wakes another one for what may be taken now.
func (s *workers) taken(w *worker, line *[]handed) {
	r := &s.replay
	switch {
	case line == &r.queue:
		w.gap = true
		r.running++
		r.fresh = 0
	case line == &s.queue && len(r.queue) > 0:
		r.fresh++
	}
	if s.line() != nil {
		s.attend()
	}
}

// replayed notes that a worker does not run an item of a gap any more.
func (s *workers) replayed(w *worker) {
	if w.gap {
		w.gap = false
		s.replay.running--
	}
}
