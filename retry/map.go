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

// appendMap appends the holes in the shorter form, or in the quicker one where the two are nearly as long, and says so in the flags; false if body
// would pass a length. It needs 4 times spareBytes more of capacity than that.
func appendMap(body []byte, flags, most int, offset int64, holes []Run) ([]byte, bool) {
	if len(holes) == 0 {
		return body, true
	}
	width := holes[len(holes)-1].To - offset
	plain, room := (width-1)/8+1, most-len(body)
	asBits := plain <= int64(room)
	if asBits {
		room = int(plain)
	}
	if !asBits || int64(len(holes)) < width/6 { // runs that are nearer to each other take hardly less than bits, and longer to write
		if runs, ok := appendRuns(body, room, offset, holes); ok {
			runs[flags] |= flagRuns
			return runs, true
		}
	}
	if !asBits {
		return body, false
	}
	body[flags] |= flagBits
	return appendBits(body, offset, holes), true
}

// appendRuns returns false when that takes more room than there is.
func appendRuns(body []byte, room int, offset int64, holes []Run) ([]byte, bool) {
	most := len(body) + room
	gaps, lengths, ok := orders(offset, holes)
	if !ok || room < binary.MaxVarintLen64+2 && room < len(holes) {
		return body, false
	}
	body = append(binary.AppendUvarint(body, uint64(len(holes))), byte(gaps), byte(lengths))
	shortGaps, shortLengths := shortCodes(gaps), shortCodes(lengths)
	w, dst := bitWriter{at: len(body)}, body[:cap(body)]
	end := offset - 1 // the first run may begin at the offset
	for _, h := range holes {
		gap, length := uint64(h.From-end-1), uint64(h.Len()-1)
		end = h.To
		if both, ok := shortGaps.both(gap, &shortLengths, length); ok {
			w = w.put(dst, both.bits, both.size)
		} else {
			w = w.putNumber(dst, gap, gaps).putNumber(dst, length, lengths)
		}
		if w.at > most {
			return body, false
		}
	}
	return dst[:w.end()], w.end() <= most
}

func appendBits(body []byte, offset int64, holes []Run) []byte {
	w, dst := bitWriter{at: len(body)}, body[:cap(body)]
	end := offset
	for _, h := range holes {
		gap, length := h.From-end, h.Len()
		end = h.To
		for ; gap > mostBits/2; gap -= mostBits / 2 {
			w = w.put(dst, 0, mostBits/2)
		}
		for ; length > mostBits/2; length -= mostBits / 2 {
			w = w.put(dst, (1<<(mostBits/2)-1)<<gap, uint(gap)+mostBits/2)
			gap = 0
		}
		w = w.put(dst, (1<<length-1)<<gap, uint(gap+length))
	}
	return dst[:w.end()]
}

// orders are good ones for the distances and the lengths; false if one of these is too large for a code.
func orders(offset int64, holes []Run) (gaps, lengths uint, ok bool) {
	const samples = 256
	if (holes[len(holes)-1].To-offset)>>numberBits > 0 {
		return 0, 0, false
	}
	var ofGaps, ofLengths [numberBits + 1]int32 // how many there are of each length in bits
	end := offset - 1
	step := len(holes)/samples + 1
	for i := 0; i < len(holes); i += step {
		h := holes[i]
		if i > 0 {
			end = holes[i-1].To
		}
		ofGaps[bits.Len64(uint64(h.From-end-1))]++
		ofLengths[bits.Len64(uint64(h.Len()-1))]++
	}
	return bestOrder(&ofGaps), bestOrder(&ofLengths), true
}

func bestOrder(lengths *[numberBits + 1]int32) (order uint) {
	longest := uint(numberBits)
	for longest > 0 && lengths[longest] == 0 {
		longest--
	}
	order = longest
	size := codeSize(lengths, longest, longest)
	for o := range longest {
		if s := codeSize(lengths, longest, o); s < size {
			order, size = o, s
		}
	}
	return order
}

// codeSize is how many bits the numbers take in a code of an order, twice. The high part of a number grows by a bit when one is added to it
// and all its bits are set: always where it has one bit, half the time where it has two, seldom above.
func codeSize(lengths *[numberBits + 1]int32, longest, order uint) (twice int64) {
	for l := range longest + 1 {
		each := 2 * int64(order+1)
		switch {
		case l == order+1:
			each += 4
		case l == order+2:
			each += 6
		case l > order:
			each += 4 * int64(l-order-1)
		}
		twice += int64(lengths[l]) * each
	}
	return twice
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
	holes := make([]Run, 0, countRuns(set))
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

// countRuns is how many runs of ones there are.
func countRuns(set []byte) (n int) {
	before := byte(0) // the bit before the first
	for _, b := range set {
		n += bits.OnesCount8(b &^ (b<<1 | before))
		before = b >> 7
	}
	return n
}
