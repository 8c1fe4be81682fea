package retry

// Window is what is done of one partition of a source. Records are taken in the order of their offsets and done in any order; the window says
// how far everything is done, and what is open above that. It is not safe for concurrent use.
//
// Below Low everything is done. At Next and above, nothing was ever taken. Nothing below Read is delivered any more. A window that was restored
// begins with Read at Low: what is open between Read and Next comes again from the partition, and what is done there is to be left out.
type Window struct {
	read, next int64
	taken      ring  // what was read from Low on; the first is open
	open       int   // how many of them are open
	unread     []Run // open, at Read or above
	waiting    int64 // how many offsets those are
}

// NewWindow begins at an offset, with everything below it done.
func NewWindow(low int64) *Window { return &Window{read: low, next: low} }

// Restore is the window that a commit described: everything below low is done, and between low and main all but the holes, which are in the
// order of their offsets. What of them lies outside is left out.
func Restore(low, main int64, holes []Run) *Window {
	w := NewWindow(max(low, main))
	w.unread = clipRuns(holes, low, w.next)
	for _, h := range w.unread {
		w.waiting += h.Len()
	}
	w.read = w.Low()
	return w
}

// Low is the first offset that is not done: where a commit may stand.
func (w *Window) Low() int64 {
	switch {
	case w.taken.n > 0:
		return w.taken.at(0)
	case len(w.unread) > 0:
		return w.unread[0].From
	}
	return w.next
}

// Next is the first offset that was never taken nor passed, by this window or those it was restored from.
func (w *Window) Next() int64 { return w.next }

// Read is the first offset that may still be delivered.
func (w *Window) Read() int64 { return w.read }

// Width is how many offsets lie between Low and Next, with those that hold no record.
func (w *Window) Width() int64 { return w.next - w.Low() }

// Open is how many offsets below Next are not done: in flight, or not read again yet.
func (w *Window) Open() int { return w.open + int(w.waiting) }

// InFlight is how many offsets were taken and are not done.
func (w *Window) InFlight() int { return w.open }

// Kept is how many records the window remembers one by one: those taken since Low, done or not. Each is 8 bytes.
func (w *Window) Kept() int { return w.taken.n }

// IsOpen says whether an offset is not done. One at Next or above is open; one below that is not is to be left out when it is read again.
func (w *Window) IsOpen(offset int64) bool {
	switch {
	case offset >= w.next:
		return true
	case offset >= w.read:
		_, found := searchRuns(w.unread, offset)
		return found
	}
	i := w.taken.find(offset)
	return i >= 0 && w.taken.isOpen(i)
}

// Pass says that nothing below next is delivered any more: what was open there and not read is done. It is how gaps of compaction, markers of
// transactions and what retention has taken away end. The result is how many offsets that closed; of a restored window they were records once.
func (w *Window) Pass(next int64) (closed int64) {
	if next <= w.read {
		return 0
	}
	w.read = next
	if len(w.unread) > 0 {
		closed = w.passUnread(next)
	}
	if next > w.next {
		closed += next - w.next
		w.next = next
	}
	return closed
}

// Taken says that the record at an offset was delivered: what lies below it and was not is done, and the offset is open until [Window.Done].
// An offset below Read is as it was.
func (w *Window) Taken(offset int64) {
	if offset < w.read {
		return
	}
	w.read = offset + 1
	if len(w.unread) > 0 {
		w.passUnread(w.read)
	}
	w.next = max(w.next, w.read)
	w.taken.push(offset)
	w.open++
}

// Done says that an offset is done. One that is done already, or was never taken, stays as it is.
func (w *Window) Done(offset int64) {
	if w.taken.isFirst(offset) {
		w.taken.pop()
		w.open--
		return
	}
	switch i := w.taken.find(offset); {
	case i < 0:
		w.doneUnread(offset)
	case w.taken.isOpen(i):
		w.taken.close(i)
		w.open--
	}
}

// Holes appends what is open between Low and Next to dst, in order.
func (w *Window) Holes(dst []Run) []Run {
	start := len(dst)
	for i := range w.taken.n {
		if w.taken.isOpen(i) {
			offset := w.taken.at(i)
			dst = joinRun(dst, start, Run{From: offset, To: offset + 1})
		}
	}
	for _, h := range w.unread {
		dst = joinRun(dst, start, h)
	}
	return dst
}

// Unread appends what is open and has not been read between two offsets.
func (w *Window) Unread(dst []Run, from, to int64) []Run {
	return append(dst, clipRuns(w.unread, max(from, w.read), to)...)
}

func (w *Window) passUnread(next int64) (closed int64) {
	for len(w.unread) > 0 && w.unread[0].From < next {
		h := &w.unread[0]
		passed := min(h.To, next) - h.From
		closed += passed
		h.From += passed
		if h.From < h.To {
			break
		}
		w.unread = w.unread[1:]
	}
	if len(w.unread) == 0 {
		w.unread = nil // lets go of the array
	}
	w.waiting -= closed
	return closed
}

// doneUnread takes one offset out of what has not been read again yet.
func (w *Window) doneUnread(offset int64) {
	i, found := searchRuns(w.unread, offset)
	if !found {
		return
	}
	w.unread = withoutOffset(w.unread, i, offset)
	w.waiting--
}
