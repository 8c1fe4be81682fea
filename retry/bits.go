package retry

import (
	"encoding/binary"
	"math/bits"
)

const (
	mostBits   = 56 // that one put or get may have
	numberBits = 55 // that a number may have
	spareBytes = 8  // behind what is written
)

// bitWriter is a place in bytes to which bits are written, the lowest first. It is a value, so that it stays in registers: put returns the
// next. Numbers of bits are masked where they shift, since a shift is faster when it is known to be below 64.
type bitWriter struct {
	at  int    // the byte that acc begins at
	acc uint64 // the bits of it that are written
	n   uint   // how many, below 8
}

// put needs spareBytes from at on.
func (w bitWriter) put(dst []byte, v uint64, n uint) bitWriter {
	w.acc |= v << (w.n & 63)
	w.n += n
	binary.LittleEndian.PutUint64(dst[w.at:], w.acc)
	w.at += int(w.n / 8)
	w.acc >>= w.n & (63 &^ 7)
	w.n %= 8
	return w
}

// end is how long the bytes are, with the last one filled up with zeros.
func (w bitWriter) end() int { return w.at + int(w.n+7)/8 }

// golomb is the Exp-Golomb code of a number of at most numberBits: its bits above order as one more than that in Elias' gamma code, then the
// lowest ones. It is short for numbers below 2^order, and grows by two bits for each doubling after that. The code has two parts, the first
// zeros and a one.
func golomb(v uint64, order uint) (zeros uint, rest uint64) {
	order &= 63
	high := v>>order + 1
	zeros = uint(bits.Len64(high)-1) & 63
	return zeros, high ^ 1<<zeros | v&(1<<order-1)<<zeros
}

// putNumber writes a number; it needs twice spareBytes.
func (w bitWriter) putNumber(dst []byte, v uint64, order uint) bitWriter {
	zeros, rest := golomb(v, order)
	if size := 2*zeros + 1 + order; size <= mostBits {
		return w.put(dst, (rest<<1|1)<<(zeros&63), size)
	}
	return w.put(dst, 1<<zeros, zeros+1).put(dst, rest, zeros+order)
}

// code is the bits of a number, or of two.
type code struct {
	bits uint64
	size uint
}

// codeTable has the codes of the smallest numbers in one order, those that most runs are made of.
type codeTable [64]code

func shortCodes(order uint) (t codeTable) {
	for v := range t {
		zeros, rest := golomb(uint64(v), order)
		t[v] = code{bits: (rest<<1 | 1) << zeros, size: 2*zeros + 1 + order}
	}
	return t
}

// both is the code of a number and of one in another order behind it; false if they are too long for one put.
func (t *codeTable) both(v uint64, next *codeTable, w uint64) (code, bool) {
	if v >= uint64(len(t)) || w >= uint64(len(next)) {
		return code{}, false
	}
	a, b := t[v], next[w]
	return code{bits: a.bits | b.bits<<(a.size&63), size: a.size + b.size}, a.size+b.size <= mostBits
}

// bitReader reads what a bitWriter wrote. After the end it reads zeros, and bad is set.
type bitReader struct {
	buf []byte
	acc uint64
	n   uint
	bad bool
}

// fill makes at least mostBits ready, if there are so many left. What acc has above n is what comes next, or zero.
func (r *bitReader) fill() {
	if len(r.buf) >= 8 && r.n < 64 {
		r.acc |= binary.LittleEndian.Uint64(r.buf) << r.n
		taken := (63 - r.n) / 8
		r.buf = r.buf[taken:]
		r.n += 8 * taken
		return
	}
	for r.n <= mostBits && len(r.buf) > 0 {
		r.acc |= uint64(r.buf[0]) << r.n
		r.buf = r.buf[1:]
		r.n += 8
	}
}

func (r *bitReader) get(n uint) uint64 {
	if n > r.n {
		r.fill()
	}
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
	length := uint(bits.TrailingZeros64(r.acc)) + 1
	if length > r.n {
		r.fill()
		length = uint(bits.TrailingZeros64(r.acc)) + 1
	}
	if length+order > numberBits+1 {
		r.bad = true
		return 0
	}
	r.get(length)
	high := r.get(length-1) | 1<<(length-1)
	return (high-1)<<order | r.get(order)
}

// end says whether nothing but the zeros of the last byte is left.
func (r *bitReader) end() bool {
	return !r.bad && len(r.buf) == 0 && r.n < 8 && r.acc == 0
}
