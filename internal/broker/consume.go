package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/task"
)

// Consume reads all of a topic that is there now, by partition, records of open and aborted transactions included.
func (c *Client) Consume(ctx context.Context, topic string) (map[int32][]task.Record, error) {
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, wrap("end offsets of "+topic, err)
	}
	return c.consume(ctx, topic, ends, kgo.ReadUncommitted())
}

// Ends are the offsets after the newest records of a topic's partitions.
func (c *Client) Ends(ctx context.Context, topic string) (map[int32]int64, error) {
	listed, err := c.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	out := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out, wrap("end offsets of "+topic, err)
}

// ConsumeCommitted reads what a read_committed consumer sees of a topic now.
func (c *Client) ConsumeCommitted(ctx context.Context, topic string) (map[int32][]task.Record, error) {
	ends, err := c.admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, wrap("stable offsets of "+topic, err)
	}
	return c.consume(ctx, topic, ends, kgo.ReadCommitted())
}

// consume reads from the starts to the ends. Control records are asked for, because a log may end with them.
func (c *Client) consume(ctx context.Context, topic string, ends kadm.ListedOffsets, isolation kgo.IsolationLevel) (map[int32][]task.Record, error) {
	starts, err := c.admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = errors.Join(starts.Error(), ends.Error())
	}
	if err != nil {
		return nil, wrap("offsets of "+topic, err)
	}
	out := map[int32][]task.Record{}
	left := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		out[end.Partition] = nil
		if start, ok := starts.Lookup(topic, end.Partition); ok && start.Offset < end.Offset {
			left[end.Partition] = end.Offset
			from[end.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	if len(left) == 0 {
		return out, nil
	}
	k, err := c.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer k.Close()
	for len(left) > 0 {
		fetches := k.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("broker: consume %s, %d partitions unfinished: %w", topic, len(left), err)
		}
		fetches.EachRecord(func(r *kgo.Record) { take(r, left, out) })
	}
	return out, nil
}

// take keeps a record below the end of its partition and notes when the end is reached.
func take(r *kgo.Record, left map[int32]int64, out map[int32][]task.Record) {
	end, ok := left[r.Partition]
	if !ok {
		return
	}
	if r.Offset < end && !r.Attrs.IsControl() {
		rec := task.Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, task.Header{Key: h.Key, Value: h.Value})
		}
		out[r.Partition] = append(out[r.Partition], rec)
	}
	if r.Offset+1 >= end {
		delete(left, r.Partition)
	}
}
