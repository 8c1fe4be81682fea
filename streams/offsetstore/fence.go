package offsetstore

import (
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/streams"
)

// ErrFenced is the error, by [errors.Is], of a save that was refused because somebody else has had the partition since. Nothing of the save is
// stored. What to do: forget the records in hand; if the partition is still assigned, read on from what Load says.
var ErrFenced = errors.New("another owner has the partition")

// none is the generation of a partition that whoever saves next may have, and of a consumer without a group.
const none = -1

// row is what is stored of a partition.
type row struct {
	offset     int64
	generation int32
}

// admit refuses the save of a generation that is older than the stored one.
func (r row) admit(group string, tp streams.TopicPartition, generation int32) error {
	if generation < 0 || generation >= r.generation {
		return nil
	}
	return fmt.Errorf("offsetstore: the offset of %v for group %q is of generation %d, and a save of generation %d comes too late: %w",
		tp, group, r.generation, generation, ErrFenced)
}

// check refuses what is no offset of a partition.
func check(tp streams.TopicPartition, offset int64) error {
	if tp.Topic != "" && tp.Partition >= 0 && offset >= 0 {
		return nil
	}
	return fmt.Errorf("offsetstore: offset %d of partition %d of topic %q is none that a consumer can have: nothing is saved", offset, tp.Partition, tp.Topic)
}
