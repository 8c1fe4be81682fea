package task

import "github.com/understudy-streams/understudy/retry"

// Item is one unit of work for a [Worker]: a record with bytes of its own, as the batch it came in is used again when the task goes on, or the
// callback of a commit. Whoever runs it has it to itself until its result is back; after that the task uses it again.
type Item struct {
	ID uint64 // names one run: an item that is run again has another one
	// Input is the index of the input whose entry node takes the record; -1 where there is none.
	Input  int
	Record Record
	// StreamTime is what the nodes are told, in milliseconds: that of the task when the record was taken, whoever has been taken since.
	StreamTime int64
	Attempt    int // tries that have failed before this one

	Path Path

	call  func(error) // of CommitAsync, instead of a record
	err   error       // what it is told
	bytes []byte      // that the record lies in
	out   Result

	// The task's alone.
	seen  seen
	tries tries
	entry *retry.Item // where it is put aside
	next  *Item       // behind it, of its key
	gap   *gap        // that it was taken from; nil for the main path
}

// Path is the one that the record of an item has come by. Those of the main path go before others.
type Path uint8

// The paths.
const (
	MainPath  Path = iota
	GapPath        // what was left behind at a crash
	RetryPath      // what was put aside
)

// fill makes the item that of a record, which is copied.
func (it *Item) fill(input int, r *Record, streamTime int64) {
	need := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		need += len(r.Headers[i].Value)
	}
	if cap(it.bytes) < need || cap(it.bytes) > maxIdleItem && need < maxIdleItem/2 {
		it.bytes = make([]byte, 0, need)
	}
	b := it.bytes[:0]
	it.Input, it.StreamTime, it.Attempt, it.Path, it.call, it.err = input, streamTime, 0, MainPath, nil, nil
	to := &it.Record
	to.Offset, to.Timestamp = r.Offset, r.Timestamp
	b, to.Key = appendBytes(b, r.Key)
	b, to.Value = appendBytes(b, r.Value)
	clear(to.Headers)
	to.Headers = to.Headers[:0]
	for _, h := range r.Headers {
		b, h.Value = appendBytes(b, h.Value)
		to.Headers = append(to.Headers, h)
	}
	it.bytes = b
}

// maxIdleItem is the most that an item keeps for the next record.
const maxIdleItem = 64 << 10

// appendBytes appends b to buf and returns the copy: nil where b is nil, and with no room behind it.
func appendBytes(buf, b []byte) (longer, copied []byte) {
	switch {
	case b == nil:
		return buf, nil
	case len(b) == 0:
		return buf, []byte{}
	}
	n := len(buf)
	buf = append(buf, b...)
	return buf, buf[n:len(buf):len(buf)]
}
