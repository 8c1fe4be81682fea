package outside

import (
	"context"
	"fmt"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Span is what a partition holds at this moment: from the first offset that is still there to below the last stable one.
type Span struct {
	task.TopicPartition
	From, To int64
}

// Spans are those of all partitions of a topic, by number.
func Spans(ctx context.Context, client *kafka.Client, topic string) ([]Span, error) {
	md, err := client.Metadata(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	t := md.Topics[topic]
	switch {
	case t == nil || t.Err == kcode.UnknownTopicOrPartition:
		return nil, fmt.Errorf("there is no topic %q on these brokers", topic)
	case t.Err != kcode.None:
		return nil, fmt.Errorf("topic %q: %w", topic, t.Err)
	}
	parts := make([]task.TopicPartition, len(t.Partitions))
	for p := range parts {
		parts[p] = task.TopicPartition{Topic: topic, Partition: int32(p)}
	}
	starts, err := client.ListOffsets(ctx, kafka.Earliest, parts)
	if err != nil {
		return nil, err
	}
	ends, err := client.ListOffsets(ctx, kafka.Stable, parts)
	if err != nil {
		return nil, err
	}
	out := make([]Span, len(parts))
	for i, tp := range parts {
		if err := starts[tp].Err; err != nil {
			return nil, err
		}
		if err := ends[tp].Err; err != nil {
			return nil, err
		}
		out[i] = Span{TopicPartition: tp, From: starts[tp].Offset, To: ends[tp].Offset}
	}
	return out, nil
}
