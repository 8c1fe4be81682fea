package retry

import "math/bits"

// MapRoom is how many bits of a commit's metadata are there for the map of what is done, whatever else it says. A map of a window no wider than
// that always fits.
const MapRoom = 25_800

// MapBits is about the most that the map of the window takes, at once, whichever way it is written: where a program that must not come near
// [MapRoom] looks before it takes more. Few open offsets take few bits however wide the window is.
func (w *Window) MapBits() int64 { return mapBits(w.Width(), w.runs(), int64(w.Open())) }

// MapBitsRead is the same for what was taken and is not done, without what is open and has not been read again.
func (w *Window) MapBitsRead() int64 { return mapBits(w.read-w.Low(), int64(w.open), int64(w.open)) }

// MapBitsWith is the same for one map of this window and another above it.
func (w *Window) MapBitsWith(above *Window) int64 {
	return mapBits(above.Next()-w.Low(), w.runs()+above.runs(), int64(w.Open())+int64(above.Open()))
}

// runs is how many runs of open offsets there are at the most.
func (w *Window) runs() int64 { return int64(w.open + len(w.unread)) }

func mapBits(width, runs, open int64) int64 {
	if runs == 0 {
		return 0
	}
	return min(width, runs*(codeBits((width-open)/runs)+codeBits((open-1)/runs)))
}

// codeBits is what a number takes in the code of an order that is right for the mean of many.
func codeBits(mean int64) int64 { return int64(bits.Len64(uint64(mean))) + 3 }
