package outside

import (
	"github.com/understudy-streams/understudy/retry"
)

// Lag is how far a group is behind on a partition, in offsets. Some of them may hold no record: those of transactions, and what compaction has
// left out.
type Lag struct {
	Open int64 // not done, up to the end; -1 is not known
	Done int64 // above the committed offset
}

// LagOf computes the lag from what was committed and where the log ends, -1 where that is not known. What a commit says to be done above its
// offset does not count.
func LagOf(committed int64, metadata string, end int64) Lag {
	if committed < 0 || end < 0 {
		return Lag{Open: -1}
	}
	m, err := retry.ParseMetadata(metadata, committed, end)
	if err != nil {
		m = retry.NewMetadata(committed)
	}
	done := m.Main - committed
	for _, h := range m.Holes {
		done -= h.Len()
	}
	return Lag{Open: max(0, end-committed-done), Done: done}
}
