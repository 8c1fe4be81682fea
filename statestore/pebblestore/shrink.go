package pebblestore

import (
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/klauspost/compress/s2"

	"github.com/understudy-streams/understudy/statestore"
)

const (
	samples     = 4       // of a batch
	sampleBytes = 4 << 10 // as much as a block of a table
	// leastGain is the part of a block that compression must take off, or Pebble leaves the block as it is: an eighth.
	leastGain = 8
)

// sampler finds out whether rows become smaller by compression. Those that do not, as they are compressed, encrypted or random already, cost a
// third of a restore to find that out block by block.
type sampler struct {
	rows, packed []byte
}

// choose says how to compress the tables of a batch: not at all if a sample of the rows of its largest store is not worth it.
func (s *sampler) choose(b []statestore.StoreBatch) *sstable.CompressionProfile {
	var changes []statestore.Change
	for i := range b {
		if len(b[i].Changes) > len(changes) {
			changes = b[i].Changes
		}
	}
	before, after := 0, 0
	for n := range samples {
		s.sample(changes[len(changes)*n/samples:])
		before += len(s.rows)
		s.packed = s2.EncodeSnappy(s.packed[:cap(s.packed)], s.rows)
		after += len(s.packed)
	}
	if before > 0 && after > before-before/leastGain {
		return sstable.NoCompression
	}
	return sstable.SnappyCompression
}

// sample gathers the first rows as they are written into a block.
func (s *sampler) sample(changes []statestore.Change) {
	s.rows = s.rows[:0]
	for i := 0; i < len(changes) && len(s.rows) < sampleBytes; i++ {
		c := &changes[i]
		if c.Value == nil {
			continue
		}
		value := c.Value[:min(len(c.Value), sampleBytes)]
		at := len(s.rows)
		s.rows = append(append(s.rows, make([]byte, rowHeaderBytes)...), value...)
		putRow(s.rows[at:], value, c.Timestamp)
	}
}
