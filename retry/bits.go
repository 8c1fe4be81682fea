package retry

import "math/bits"

// bitWriter appends bits to bytes, the lowest first. It writes no byte past the capacity of buf: full says that there was no room.
type bitWriter struct {
	buf  []byte
	acc  uint64
	n    uint
	full bool
}

// mostBits is the most that one put or get may have.
const mostBits = 56

func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.flush()
	}
}

func (w *bitWriter) flush() {
	if len(w.buf) == cap(w.buf) {
		w.full = true
	} else {
		w.buf = append(w.buf, byte(w.acc))
	}
	w.acc >>= 8
}

// end fills the last byte up with zeros.
func (w *bitWriter) end() []byte {
	if w.n > 0 {
		w.flush()
	}
	return w.buf
}

// putNumber writes a number in an Exp-Golomb code: its bits above order as one more than that in Elias' gamma code, then the lowest ones. It
// is short for numbers below 2^order, and grows by two bits for each doubling after that. One near 2^56 or above does not go in: full is set.
func (w *bitWriter) putNumber(v uint64, order uint) {
	high := v>>order + 1
	length := uint(bits.Len64(high))
	if length+order > mostBits {
		w.full = true
		return
	}
	w.put(1<<(length-1), length)
	w.put(high&^(1<<(length-1)), length-1)
	w.put(v&(1<<order-1), order)
}

// bitReader reads what a bitWriter wrote. After the end it reads zeros, and bad is set.
type bitReader struct {
	buf []byte
	acc uint64
	n   uint
	bad bool
}

func (r *bitReader) fill() {
	for r.n <= mostBits && len(r.buf) > 0 {
		r.acc |= uint64(r.buf[0]) << r.n
		r.buf = r.buf[1:]
		r.n += 8
	}
}

func (r *bitReader) get(n uint) uint64 {
	r.fill()
	if n > r.n {
		r.bad = true
		return 0
	}
	v := r.acc & (1<<n - 1)
	r.acc >>= n
	r.n -= n
	return v
}

func (r *bitReader) getNumber(order uint) uint64 {
	r.fill()
	length := uint(bits.TrailingZeros64(r.acc)) + 1
	if length > mostBits {
		r.bad = true
		return 0
	}
	r.get(length)
	high := (r.get(length-1) | 1<<(length-1)) - 1
	if uint(bits.Len64(high))+order > mostBits {
		r.bad = true
		return 0
	}
	return high<<order | r.get(order)
}

// end says whether nothing but the zeros of the last byte is left.
func (r *bitReader) end() bool {
	return !r.bad && len(r.buf) == 0 && r.n < 8 && r.acc == 0
}
