package retry

import "math/bits"

// MapRoom is how many bits of a commit's metadata are there for the map of what is done, whatever else it says. A map of a window no wider than
// that always fits.
const MapRoom = 26_000

// MapBits is about the most that the map of the window takes, at once, whichever way it is written: where a program that must not come near
// [MapRoom] looks before it takes more. Few open offsets take few bits however wide the window is.
func (w *Window) MapBits() int64 {
	width, runs := w.Width(), int64(w.open+len(w.unread)) // at most so many runs
	if runs == 0 {
		return 0
	}
	open := int64(w.Open())
	return min(width, runs*(codeBits((width-open)/runs)+codeBits((open-1)/runs)))
}

// codeBits is what a number takes in the code of an order that is right for the mean of many.
func codeBits(mean int64) int64 { return int64(bits.Len64(uint64(mean))) + 3 }
