package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseID(t *testing.T) {
	id, err := ParseID("3_12")
	require.NoError(t, err)
	require.Equal(t, ID{Subtopology: 3, Partition: 12}, id)
	require.Equal(t, "3_12", id.String())
	for _, s := range []string{"", "3", "_", "3_", "_1", "-1_2", "1_-2", "1_2_3", "a_b", "99999999999_1"} {
		_, err := ParseID(s)
		require.ErrorContains(t, err, "not a task id", s)
	}
}

func TestTopicPartitionOrder(t *testing.T) {
	a, b, c := TopicPartition{"a", 2}, TopicPartition{"a", 10}, TopicPartition{"b", 1}
	require.Negative(t, a.Compare(b))
	require.Negative(t, b.Compare(c))
	require.Zero(t, c.Compare(c))
	require.Positive(t, c.Compare(a))
	require.Equal(t, "a-10", b.String())
}
