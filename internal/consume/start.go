package consume

// Start says where to begin to read a partition.
type Start struct {
	At    At
	Value int64 // the offset of Exact, the milliseconds of Timestamp
}

// At is a kind of Start.
type At uint8

// The kinds.
const (
	Committed At = iota // the committed offset, or what Config.NoOffset says
	Earliest
	Latest
	Timestamp
	Exact
)
