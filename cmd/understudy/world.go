package main

import (
	"context"
	"fmt"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// world is what there is beside the group: the topics with their partition counts, and the names of all groups.
type world struct {
	topics map[string]int32
	groups []string
}

func worldOf(ctx context.Context, client *kafka.Client) (world, error) {
	md, err := client.Metadata(ctx, nil)
	if err != nil {
		return world{}, err
	}
	w := world{topics: map[string]int32{}}
	for name, t := range md.Topics {
		if t.Err == kcode.None {
			w.topics[name] = int32(len(t.Partitions))
		}
	}
	groups, err := client.ListGroups(ctx)
	if err != nil {
		// One that is not seen might have the topics that are taken for this application's.
		return world{}, fmt.Errorf("list the groups: %w", allowed(err, "Describe", "*"))
	}
	for _, g := range groups {
		w.groups = append(w.groups, g.Group)
	}
	return w, nil
}

// all are the partitions of a topic.
func (w *world) all(topic string) []task.TopicPartition {
	out := make([]task.TopicPartition, w.topics[topic])
	for p := range out {
		out[p] = task.TopicPartition{Topic: topic, Partition: int32(p)}
	}
	return out
}
