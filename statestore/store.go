package statestore

import "fmt"

// TaskID names a task: a subtopology and the partition number it works on. It prints as Kafka Streams prints it, "0_1".
type TaskID struct {
	Subtopology int32
	Partition   int32
}

func (id TaskID) String() string { return fmt.Sprintf("%d_%d", id.Subtopology, id.Partition) }

// Compare orders tasks by subtopology, then partition.
func (id TaskID) Compare(o TaskID) int {
	if id.Subtopology != o.Subtopology {
		return int(id.Subtopology) - int(o.Subtopology)
	}
	return int(id.Partition) - int(o.Partition)
}

// Row is the value of a key in a store, encoded, with the timestamp of the newest record that went into it
// (milliseconds since the epoch, the timestamp of its changelog record). Value is nil only where a Row stands for "no row".
type Row struct {
	Value     []byte
	Timestamp int64
}

// Reader reads the committed rows of one store of one task. One goroutine uses it at a time.
type Reader interface {
	// Get returns the row of key. The value is valid until the next call of any method of this Reader.
	Get(key []byte) (row Row, found bool, err error)
	// Scan iterates over the rows with lo <= key < hi in byte order of the keys, or from the end if reverse.
	// A nil lo is the first key, a nil hi is after the last.
	Scan(lo, hi []byte, reverse bool) Iterator
}

// Iterator walks over rows. It starts before the first row. Key and Row are valid until the next call of Next.
// An error ends the iteration: Next returns false and Close returns the error. Close is idempotent.
type Iterator interface {
	Next() bool
	Key() []byte
	Row() Row
	Close() error
}

// Spec describes one store of a subtopology to its backend.
type Spec struct {
	Name    string // as the user named it; the identity of the store on disk
	Ordered bool   // ranges are read from it

	// Changelog is the topic id of the store's changelog: positions are offsets in this topic and in no other. Zero means that the id is
	// not known, or that the store has no changelog.
	Changelog [16]byte
}

// Fits reports whether a position that was written under the topic id stored can be one in the changelog of this store. An id that is
// not known fits all.
func (s *Spec) Fits(stored [16]byte) bool {
	return stored == s.Changelog || stored == [16]byte{} || s.Changelog == [16]byte{}
}

// Identity is the topic id to write with the store's positions, where the stored one fits: the known one of the two. Forgetting an id
// because it is not known this time would let another topic pass for this one later.
func (s *Spec) Identity(stored [16]byte) [16]byte {
	if s.Changelog == [16]byte{} {
		return stored
	}
	return s.Changelog
}

// Change is one committed write: the key's new value, or its deletion where Value is nil.
type Change struct {
	Key, Value []byte
	Timestamp  int64
}

// StoreBatch is what one store takes in a Batch.
type StoreBatch struct {
	Store    int // index into the specs the task was opened with
	Changes  []Change
	Position int64 // the changelog offset that follows what these changes came from; negative leaves the stored position as it is
}

// Batch is one atomic write to the stores of one task: rows and the changelog positions that belong to them.
type Batch struct {
	Stores []StoreBatch
	Urgent bool // a task waits for it: an Ingest may take several processors
	// Taken, if there is one, is called by an Ingest that needs nothing any more of what the batch lies in, and has yet to make durable what it has
	// made of it.
	Taken func()
}

// NoPosition is the position of a store that has never been written: its changelog is read from the start.
const NoPosition = int64(-1)

// TaskStores are the stores of one task in a Backend. Readers belong to the task's goroutine; Apply, Ingest and Drop are called from the
// writer pool, one at a time for one task. What a batch lies in is used again once Apply or Ingest has returned.
type TaskStores interface {
	// Reader returns a reader of the store with this index. Each call makes a new one, which is of use until ReleaseReaders or Close. It
	// sees all that was written before it was made, and all that is written after.
	Reader(store int) Reader
	// ReleaseReaders ends the readers made so far and gives back what they hold; the stores stay open and can be written, as those of a
	// task that is only followed from here on. Readers made later are not concerned. It may be called while a Get is under way, which ends
	// with its row or an error, and does not wait for the disk. Iterators are to be closed before.
	ReleaseReaders()
	// Position returns the changelog offset up to which the store has been written (exclusive), or NoPosition.
	Position(store int) int64
	// Stale says whether the store was wiped when it was opened because its changelog is another topic now: it was deleted and made anew.
	Stale(store int) bool
	// Apply writes the batch atomically. It is durable only after a flush; after a crash the stores hold a consistent older prefix.
	Apply(b *Batch) error
	// Ingest is the bulk path of a restore: it writes rows and the position that follows them as sorted tables, beside the commit
	// pipeline. Later entries of one key win. An implementation may do it as an Apply.
	Ingest(b *Batch) error
	// Wipe deletes all rows and the position of one store, durably.
	Wipe(store int) error
	// Drop deletes everything of this task, durably, and closes it.
	Drop() error
	// Close releases what is open for this task. Its rows stay.
	Close() error
}

// StoredTask is a task that has rows or positions in a Backend.
type StoredTask struct {
	ID   TaskID
	Open bool // its stores were open when it was listed
	// Stores are those that have a position, in the order of their names; also those that nobody opens any more, as the topology has lost
	// them. Such a store lies there until the task is dropped.
	Stores []StoredStore
}

// Store returns what is there of the store with this name; its position is NoPosition if that is nothing.
func (t *StoredTask) Store(name string) StoredStore {
	for i := range t.Stores {
		if t.Stores[i].Name == name {
			return t.Stores[i]
		}
	}
	return StoredStore{Name: name, Position: NoPosition}
}

// StoredStore says how far a store has been written.
type StoredStore struct {
	Name      string
	Position  int64    // as TaskStores.Position
	Changelog [16]byte // the topic id that the position is an offset of, zero if it was never known; see Spec.Fits
}

// Backend holds the committed state of all tasks of a process.
type Backend interface {
	// Open opens the stores of a task, which may be new. A store whose position was written under another Spec.Changelog than the given
	// one, both known, is wiped before Open returns.
	Open(id TaskID, stores []Spec) (TaskStores, error)
	// Tasks lists what is there, open or not, in the order of TaskID.Compare. It reads positions but no rows, and may wait for the disk.
	Tasks() ([]StoredTask, error)
	// Drop deletes everything of a task that is not open, durably: all its stores, whether or not the topology has them still. A crash
	// meanwhile leaves all of it or nothing. It is an error if the task is open, and none if nothing of it is there.
	Drop(id TaskID) error
	// DiskUsage estimates how many bytes a task takes on disk. It reads no rows and takes well below a millisecond. What has not been
	// flushed does not count; a Backend in memory takes none.
	DiskUsage(id TaskID) (int64, error)
	// Flush makes everything applied so far durable.
	Flush() error
	// Close flushes and closes. All TaskStores must be closed before.
	Close() error
}
