package retry

import (
	"encoding/binary"
	"slices"
)

// Bytes as text that is safe in commit metadata: two characters for 13 bits, the lowest first, of the 91 characters that basE91 uses. Unlike
// there, a pair never holds 14 bits: the length of the text follows from the length of the bytes, and it is 8 % shorter than base64.

const base91Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&()*+,./:;<=>?@[]^_`{|}~\""

const (
	base91Base = len(base91Alphabet)
	pairBits   = 13
	tailBits   = 6 // of one character at the end
	noDigit    = 0xff
	pairCount  = 1 << pairBits
)

// base91Pairs has the two characters of each 13 bits.
var base91Pairs = func() (t [pairCount][2]byte) {
	for v := range t {
		t[v] = [2]byte{base91Alphabet[v%base91Base], base91Alphabet[v/base91Base]}
	}
	return t
}()

var base91Digits = func() (t [256]byte) {
	for i := range t {
		t[i] = noDigit
	}
	for i := range base91Base {
		t[base91Alphabet[i]] = byte(i)
	}
	return t
}()

// base91Length is how many characters so many bytes take.
func base91Length(n int) int {
	length := 8 * n / pairBits * 2
	switch rest := 8 * n % pairBits; {
	case rest == 0:
		return length
	case rest <= tailBits:
		return length + 1
	default:
		return length + 2
	}
}

func appendBase91(dst, src []byte) []byte {
	bit, pairs := 0, 8*len(src)/pairBits
	for ; pairs > 0 && bit/8+8 <= len(src); pairs-- {
		p := &base91Pairs[binary.LittleEndian.Uint64(src[bit/8:])>>(bit%8)%pairCount]
		dst = append(dst, p[0], p[1])
		bit += pairBits
	}
	var last [8]byte // with zeros behind the end
	copy(last[:], src[bit/8:])
	rest := 8*len(src) - bit
	acc := binary.LittleEndian.Uint64(last[:]) >> (bit % 8)
	for ; rest > tailBits; rest -= pairBits {
		p := &base91Pairs[acc%pairCount]
		dst = append(dst, p[0], p[1])
		acc >>= pairBits
	}
	if rest > 0 {
		dst = append(dst, base91Alphabet[acc])
	}
	return dst
}

// appendUnbase91 reads what appendBase91 wrote, and nothing else: there is one text for each string of bytes.
func appendUnbase91(dst []byte, src string) ([]byte, bool) {
	size := (len(src)/2*pairBits + len(src)%2*tailBits) / 8
	if base91Length(size) != len(src) {
		return dst, false
	}
	start := len(dst)
	dst = slices.Grow(dst, size+2*spareBytes)
	dst = dst[:cap(dst)]
	w := bitWriter{at: start}
	for i := 0; i+1 < len(src); i += 2 {
		low, high := uint64(base91Digits[src[i]]), uint64(base91Digits[src[i+1]])
		v := low + high*uint64(base91Base)
		if low == noDigit || v >= pairCount { // a high that is no digit is too much by itself
			return dst[:start], false
		}
		w = w.put(dst, v, pairBits)
	}
	if len(src)%2 == 1 {
		v := uint64(base91Digits[src[len(src)-1]])
		if v >= 1<<tailBits {
			return dst[:start], false
		}
		w = w.put(dst, v, tailBits)
	}
	return dst[:start+size], w.at == start+size && w.acc == 0
}
