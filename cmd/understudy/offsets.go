package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

// partitionView is an input partition. Numbers that are not known are -1.
type partitionView struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	// Beside is what the commit says beside its offset; nil where that is nothing.
	Beside *besideView `json:"metadata,omitempty"`
}

// inputs are the partitions that the standard parts of the assignments name.
func inputs(d kafka.GroupDescription) []task.TopicPartition {
	var out []task.TopicPartition
	for _, m := range d.Members {
		if a, err := assignor.DecodeAssignment(m.Assignment); err == nil {
			out = append(out, a.Partitions...)
		}
	}
	slices.SortFunc(out, task.TopicPartition.Compare)
	return slices.Compact(out)
}

// positions asks how far the group has committed its input, and where that ends.
func positions(ctx context.Context, client *kafka.Client, app string, parts []task.TopicPartition) ([]partitionView, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	group := outside.GroupOffsets{Client: client, Group: app}
	defer group.Close()
	committed, err := group.Fetch(ctx, parts)
	if err != nil {
		return nil, err
	}
	ends, err := client.ListOffsets(ctx, kafka.Latest, parts)
	if err != nil {
		return nil, fmt.Errorf("list the ends of the input: %w", err)
	}
	out := make([]partitionView, len(parts))
	for i, c := range committed {
		p := partitionView{Topic: c.Topic, Partition: c.Partition, Committed: -1, End: -1, Lag: -1}
		if c.Code == kcode.None {
			p.Committed = c.Offset
		}
		if e := ends[c.TopicPartition]; e.Err == nil {
			p.End = e.Offset
		}
		p.Lag = outside.LagOf(p.Committed, c.Metadata, p.End).Open
		if p.Committed >= 0 {
			p.Beside = besideOf(c.Metadata, p.Committed, p.End)
		}
		out[i] = p
	}
	return out, nil
}
