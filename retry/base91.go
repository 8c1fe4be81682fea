package retry

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

func appendBase91(dst []byte, src []byte) []byte {
	var acc uint32
	var n uint
	for _, b := range src {
		acc |= uint32(b) << n
		n += 8
		if n >= pairBits {
			p := &base91Pairs[acc&(pairCount-1)]
			dst = append(dst, p[0], p[1])
			acc >>= pairBits
			n -= pairBits
		}
	}
	switch {
	case n == 0:
		return dst
	case n <= tailBits:
		return append(dst, base91Alphabet[acc])
	default:
		return append(dst, base91Pairs[acc][0], base91Pairs[acc][1])
	}
}

// appendUnbase91 reads what appendBase91 wrote, and nothing else: there is one text for each string of bytes.
func appendUnbase91(dst []byte, src string) ([]byte, bool) {
	size := (len(src)/2*pairBits + len(src)%2*tailBits) / 8
	if base91Length(size) != len(src) {
		return dst, false
	}
	var acc uint32
	var n uint
	for len(src) > 0 {
		v, bits := uint32(base91Digits[src[0]]), uint(tailBits)
		if v == noDigit {
			return dst, false
		}
		if len(src) > 1 {
			second := uint32(base91Digits[src[1]])
			if second == noDigit {
				return dst, false
			}
			v, bits = v+second*uint32(base91Base), pairBits
		}
		if v >= 1<<bits {
			return dst, false
		}
		src = src[min(2, len(src)):]
		acc |= v << n
		for n += bits; n >= 8; n -= 8 {
			if size == 0 {
				return dst, false
			}
			dst = append(dst, byte(acc))
			acc >>= 8
			size--
		}
	}
	return dst, size == 0 && acc == 0
}
