package task

import "github.com/understudy-streams/understudy/statestore"

// Header is a record header. A nil Value is a null header value, an empty one is present and empty.
type Header struct {
	Key   string
	Value []byte
}

// Record is one input record, encoded as it came. Key and Value are nil where the record has null there; an empty slice is present and
// empty. Timestamp is in milliseconds since the epoch. All bytes belong to the Batch the record came in, whose memory is used again when its
// last record is done.
type Record struct {
	Offset    int64
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Batch is what one fetch brought of one partition, in offset order: as runs that are decoded when they are read, or as decoded records. A
// Reader reads both, the runs first. Its memory is owned by whoever holds the batch.
type Batch struct {
	Runs    []Run
	Records []Record
	// From is the first offset that is to be delivered: a broker answers with whole record batches, which may begin before it.
	From int64
	// Memory is what the runs lie in, for whoever uses it again.
	Memory [][]byte
	// Next is the offset to fetch after this batch. It lies beyond the last record where compaction, transaction markers or aborted
	// records left a gap, so a batch may move the position without bringing a record.
	Next int64
	// Bytes is what the batch counts against the bound of its queue.
	Bytes int
	// HighWatermark is the end of the partition as the broker knew it with this answer.
	HighWatermark int64
}

// OutRecord is one record to be produced. Nil key or value is null on the wire.
type OutRecord struct {
	Key, Value []byte
	Timestamp  int64
	Headers    []Header
}

// Effects is what a task hands to the sender at once: outputs and changelog records, encoded, grouped by partition. The sender borrows it
// until it answers that the sequence is acknowledged; then the task uses its memory again.
type Effects struct {
	Task   ID
	Epoch  uint64 // the assignment epoch under which it was made
	Seq    uint64 // counts up by one with every Effects of the task, from 1
	Groups []Group
	Bytes  int

	// The task's to reuse once the sequence is acknowledged.
	arena   [][]byte   // chunks that the records' bytes lie in; the last one in use is filled up to its length
	chunk   int        // index of the chunk in use
	headers []Header   // that the records' headers lie in
	heads   [][]Header // of those records that have some
}

// InputOffset is what a commit says of one input partition: everything below Offset is done.
type InputOffset struct {
	TopicPartition
	Offset   int64
	Metadata string // ASCII, at most 4096 bytes
}

// Sealed is a cut through a task at a unit boundary, as plain data: what must be acknowledged, then committed, then applied. It is valid
// until the task is told the result.
type Sealed struct {
	Task    ID
	Epoch   uint64
	Seq     uint64 // acks of all Effects up to this sequence are needed first; 0 if the task never sent any
	Offsets []InputOffset
	// Stores has an entry for each logged store that changed. Position is filled by the committer from the acks.
	Stores []SealedStore
	// StreamTime is the task's stream time at the cut, in milliseconds; it is in the metadata of Offsets already.
	StreamTime int64
	Records    int    // input records covered since the last cut
	Rewrites   uint64 // how many Rewrite events the task's cuts up to this one cover
}

// SealedStore is what a sealed commit writes to one store once its offsets are committed.
type SealedStore struct {
	Store     int
	Changelog TopicPartition // zero where the store has no changelog
	Changes   []statestore.Change
}
