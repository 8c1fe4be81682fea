package task

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/understudy-streams/understudy/statestore"
)

// ID names a task: a subtopology and the partition number it works on, printed "0_1" as Kafka Streams prints it.
type ID = statestore.TaskID

// ParseID reads what ID.String writes.
func ParseID(s string) (ID, error) {
	sub, part, ok := strings.Cut(s, "_")
	if ok {
		a, errA := strconv.ParseInt(sub, 10, 32)
		b, errB := strconv.ParseInt(part, 10, 32)
		if errA == nil && errB == nil && a >= 0 && b >= 0 {
			return ID{Subtopology: int32(a), Partition: int32(b)}, nil
		}
	}
	return ID{}, fmt.Errorf("task: %q is not a task id such as 0_1", s)
}

// TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Compare orders by topic, then partition.
func (tp TopicPartition) Compare(o TopicPartition) int {
	if c := strings.Compare(tp.Topic, o.Topic); c != 0 {
		return c
	}
	return cmp.Compare(tp.Partition, o.Partition)
}
