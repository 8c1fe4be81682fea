package retry

import (
	"encoding/binary"
	"math/bits"
)

// tidyRuns says whether runs are in order, apart, and between two offsets.
func tidyRuns(runs []Run, low, high int64) bool {
	end := low - 1
	for _, r := range runs {
		if r.From <= end || r.From >= r.To {
			return false
		}
		end = r.To
	}
	return len(runs) == 0 || end <= high
}

// appendMap appends the holes in the shorter form, and says so in the flags; false if there is no room for it.
func appendMap(body []byte, flags int, offset int64, holes []Run) ([]byte, bool) {
	if len(holes) == 0 {
		return body, true
	}
	width := holes[len(holes)-1].To - offset
	asBitsSize := (width-1)/8 + 1
	gaps, lengths, size := orders(offset, holes)
	if size/8 < asBitsSize {
		runs, ok := appendRuns(body, offset, holes, gaps, lengths)
		if ok && int64(len(runs)-len(body)) <= asBitsSize {
			runs[flags] |= flagRuns
			return runs, true
		}
	}
	if int64(cap(body)-len(body)) < asBitsSize {
		return body, false
	}
	body[flags] |= flagBits
	return appendBits(body, offset, holes, int(asBitsSize)), true
}

// appendRuns never passes the capacity of body.
func appendRuns(body []byte, offset int64, holes []Run, gaps, lengths uint) ([]byte, bool) {
	if cap(body)-len(body) < binary.MaxVarintLen64+2 {
		return body, false
	}
	w := bitWriter{buf: binary.AppendUvarint(body, uint64(len(holes)))}
	w.put(uint64(gaps), 8)
	w.put(uint64(lengths), 8)
	end := offset - 1 // the first run may begin at the offset
	for _, h := range holes {
		w.putNumber(uint64(h.From-end-1), gaps)
		w.putNumber(uint64(h.Len()-1), lengths)
		end = h.To
	}
	return w.end(), !w.full
}

func appendBits(body []byte, offset int64, holes []Run, size int) []byte {
	at := len(body)
	body = body[:at+size]
	set := body[at:]
	clear(set)
	for _, h := range holes {
		setBits(set, int(h.From-offset), int(h.To-offset))
	}
	return body
}

// setBits sets those from one number up to another, which is not set.
func setBits(set []byte, from, to int) {
	first, last := from/8, (to-1)/8
	head, tail := byte(0xff)<<(from%8), byte(0xff)>>(7-(to-1)%8)
	if first == last {
		set[first] |= head & tail
		return
	}
	set[first] |= head
	for i := first + 1; i < last; i++ {
		set[i] = 0xff
	}
	set[last] |= tail
}

// orders are the best ones for the distances and the lengths, and how many bits the runs then take, nearly.
func orders(offset int64, holes []Run) (gaps, lengths uint, size int64) {
	var ofGaps, ofLengths [65]int32
	end := offset - 1
	for _, h := range holes {
		ofGaps[bits.Len64(uint64(h.From-end-1))]++
		ofLengths[bits.Len64(uint64(h.Len()-1))]++
		end = h.To
	}
	gaps, gapBits := bestOrder(&ofGaps)
	lengths, lengthBits := bestOrder(&ofLengths)
	return gaps, lengths, gapBits + lengthBits
}

// bestOrder looks at how many numbers there are of each length in bits.
func bestOrder(lengths *[65]int32) (order uint, size int64) {
	longest := uint(len(lengths) - 1)
	for longest > 0 && lengths[longest] == 0 {
		longest--
	}
	order, size = longest, codeSize(lengths, longest, longest)
	for o := range longest {
		if s := codeSize(lengths, longest, o); s < size {
			order, size = o, s
		}
	}
	return order, size
}

// codeSize is how many bits the numbers take in a code of an order. The high part of a number grows by a bit when one is added to it and all
// its bits are set: always where it has one bit, half the time where it has two, seldom above.
func codeSize(lengths *[65]int32, longest, order uint) (size int64) {
	for l := uint(0); l <= longest; l++ {
		each := 2 * int64(order+1)
		switch {
		case l == order+1:
			each += 4
		case l == order+2:
			each += 6
		case l > order:
			each += 4 * int64(l-order-1)
		}
		size += int64(lengths[l]) * each
	}
	return size / 2
}

// readRuns reads holes that lie between two offsets.
func readRuns(body []byte, offset, main int64) ([]Run, bool) {
	number, n := binary.Uvarint(body)
	if n <= 0 || number == 0 || number > uint64(len(body))*4 {
		return nil, false // a run takes at least two bits
	}
	r := bitReader{buf: body[n:]}
	gaps, lengths := uint(r.get(8)), uint(r.get(8))
	if gaps > mostBits || lengths > mostBits {
		return nil, false
	}
	holes := make([]Run, number)
	end := offset - 1
	for i := range holes {
		gap, more := r.getNumber(gaps), r.getNumber(lengths)
		left := main - end - 1
		if r.bad || left <= 0 || gap >= uint64(left) || more >= uint64(left)-gap {
			return nil, false
		}
		from := end + 1 + int64(gap)
		end = from + int64(more) + 1
		holes[i] = Run{From: from, To: end}
	}
	return holes, r.end()
}

// readBits reads holes that lie between two offsets.
func readBits(set []byte, offset, main int64) ([]Run, bool) {
	last := len(set) - 1
	if last < 0 || set[last] == 0 || int64(8*last+bits.Len8(set[last])) > main-offset {
		return nil, false
	}
	var holes []Run
	for i, b := range set {
		at := offset + 8*int64(i)
		for b != 0 {
			first := bits.TrailingZeros8(b)
			n := bits.TrailingZeros8(^(b >> first))
			holes = joinRun(holes, 0, Run{From: at + int64(first), To: at + int64(first+n)})
			b &^= byte(1<<n-1) << first
		}
	}
	return holes, true
}
