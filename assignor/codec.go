package assignor

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// Bounds of what a reader believes.
const (
	maxCapacity   = 1 << 20
	maxFollowUpMs = 1 << 40
)

// writer appends numbers as varints and lists of tasks as gaps: tasks of one subtopology mostly lie close together.
type writer struct{ buf []byte }

func (w *writer) number(n uint64) { w.buf = binary.AppendUvarint(w.buf, n) }
func (w *writer) fixed(n uint64)  { w.buf = binary.BigEndian.AppendUint64(w.buf, n) }

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

// field writes number, length and body, so that a reader can skip what it does not know.
func (w *writer) field(n uint64, present bool, body func(*writer)) {
	if !present {
		return
	}
	var inner writer
	body(&inner)
	w.bytesField(n, inner.buf)
}

func (w *writer) bytesField(n uint64, b []byte) {
	w.number(n)
	w.number(uint64(len(b)))
	w.buf = append(w.buf, b...)
}

func (w *writer) numberField(n, value uint64) {
	w.field(n, value != 0, func(w *writer) { w.number(value) })
}

func (w *writer) tasksField(n uint64, ids []task.ID) {
	w.field(n, len(ids) > 0, func(w *writer) { w.list(ids, nil) })
}

// list writes tasks in order, each followed by what each says of the i-th task of the list as it came.
func (w *writer) list(ids []task.ID, each func(w *writer, i int)) {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return ids[a].Compare(ids[b]) })
	for len(order) > 0 {
		sub := ids[order[0]].Subtopology
		n := 1
		for n < len(order) && ids[order[n]].Subtopology == sub {
			n++
		}
		w.number(uint64(sub))
		w.number(uint64(n))
		last := int32(0)
		for _, i := range order[:n] {
			w.number(uint64(ids[i].Partition - last))
			last = ids[i].Partition
			if each != nil {
				each(w, i)
			}
		}
		order = order[n:]
	}
}

func (w *writer) tags(tags map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		w.text(k)
		w.text(tags[k])
	}
}

func (w *writer) hashes(in []Hash) {
	in = slices.SortedFunc(slices.Values(in), func(a, b Hash) int { return cmp.Compare(a.Subtopology, b.Subtopology) })
	for _, h := range in {
		w.number(uint64(h.Subtopology))
		w.fixed(h.Sum)
	}
}

func (w *writer) counts(in []Count) {
	in = slices.SortedFunc(slices.Values(in), func(a, b Count) int { return cmp.Compare(a.Subtopology, b.Subtopology) })
	for _, c := range in {
		w.number(uint64(c.Subtopology))
		w.number(uint64(c.Partitions))
	}
}

// The wire has values of its own for a lag that is no number, so that none can be mistaken for another.
const (
	wireLagUnknown = 0
	wireLagRunning = 1
	wireLagZero    = 2
)

// A replica's kind and flags share a byte.
const (
	replicaKind    = 0x3f
	replicaStalled = 0x40
	replicaReady   = 0x80
)

func (w *writer) replicas(in []Replica) {
	ids := make([]task.ID, len(in))
	for i, r := range in {
		ids[i] = r.Task
	}
	w.list(ids, func(w *writer, i int) {
		r := in[i]
		kind := byte(r.Kind) & replicaKind
		if r.Ready {
			kind |= replicaReady
		}
		if r.Stalled {
			kind |= replicaStalled
		}
		w.buf = append(w.buf, kind)
		switch {
		case r.Lag >= 0:
			w.number(uint64(r.Lag) + wireLagZero)
		case r.Lag == LagRunning:
			w.number(wireLagRunning)
		default:
			w.number(wireLagUnknown)
		}
		w.number(uint64(max(0, r.CatchUp)))
	})
}

func zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }

// reader takes bytes apart. The first fault sticks, and everything after it reads as zero.
type reader struct {
	buf []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.buf = nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.buf) {
		r.fail(errTruncated)
		return nil
	}
	b := r.buf[:n]
	r.buf = r.buf[n:]
	return b
}

func (r *reader) octet() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.buf)
	if size <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.buf = r.buf[size:]
	return n
}

func (r *reader) upTo(most uint64) uint64 {
	n := r.number()
	if n > most {
		r.fail(fmt.Errorf("assignor: number %d is over its bound of %d", n, most))
		return 0
	}
	return n
}

func (r *reader) signed32() int32 {
	n := r.number()
	s := int64(n>>1) ^ -int64(n&1)
	if s < math.MinInt32 || s > math.MaxInt32 {
		r.fail(fmt.Errorf("assignor: number %d does not fit 32 bits", s))
		return 0
	}
	return int32(s)
}

func (r *reader) fixed() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string { return string(r.take(int(r.upTo(math.MaxInt16)))) }

// eachField checks the versions and calls f with each field. A field that f does not know is skipped; what f leaves unread is skipped too.
// Bytes without the end mark are cut off, perhaps between two fields, and refused.
func eachField(b []byte, f func(field uint64, r *reader)) error {
	r := reader{buf: b}
	r.octet()
	if need := r.octet(); r.err == nil && need > wireVersion {
		return ErrTooNew
	}
	for r.err == nil {
		field := r.number()
		if field == fieldEnd && r.err == nil {
			return nil
		}
		body := reader{buf: r.take(int(r.upTo(math.MaxInt32))), err: r.err}
		if r.err == nil {
			f(field, &body)
		}
		if body.err != nil {
			r.fail(body.err)
		}
	}
	return r.err
}

// list reads what writer.list writes.
func (r *reader) list(each func(id task.ID)) {
	for r.err == nil && len(r.buf) > 0 {
		sub := int32(r.upTo(math.MaxInt32))
		n := r.upTo(uint64(len(r.buf)))
		last := int64(0)
		for ; n > 0 && r.err == nil; n-- {
			last += int64(r.upTo(math.MaxInt32))
			if last > math.MaxInt32 {
				r.fail(fmt.Errorf("assignor: partition %d does not fit 32 bits", last))
			}
			if r.err == nil {
				each(task.ID{Subtopology: sub, Partition: int32(last)})
			}
		}
		if n > 0 {
			r.fail(errTruncated)
		}
	}
}

func (r *reader) tasks() (out []task.ID) {
	r.list(func(id task.ID) { out = append(out, id) })
	return out
}

func (r *reader) tags() map[string]string {
	out := map[string]string{}
	for r.err == nil && len(r.buf) > 0 {
		k := r.text()
		out[k] = r.text()
	}
	return out
}

func (r *reader) hashes() (out []Hash) {
	for r.err == nil && len(r.buf) > 0 {
		out = append(out, Hash{Subtopology: int32(r.upTo(math.MaxInt32)), Sum: r.fixed()})
	}
	return out
}

func (r *reader) counts() (out []Count) {
	for r.err == nil && len(r.buf) > 0 {
		out = append(out, Count{Subtopology: int32(r.upTo(math.MaxInt32)), Partitions: int32(r.upTo(math.MaxInt32))})
	}
	return out
}

func (r *reader) replicas() (out []Replica) {
	r.list(func(id task.ID) {
		kind := r.octet()
		x := Replica{Task: id, Kind: Kind(kind & replicaKind), Ready: kind&replicaReady != 0, Stalled: kind&replicaStalled != 0}
		switch lag := r.upTo(math.MaxInt64); lag {
		case wireLagUnknown:
			x.Lag = LagUnknown
		case wireLagRunning:
			x.Lag = LagRunning
		default:
			x.Lag = Lag(lag - wireLagZero)
		}
		x.CatchUp = int32(r.upTo(math.MaxInt32))
		out = append(out, x)
	})
	return out
}
