package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// At says which end of a partition ListOffsets tells.
type At int

// The ends.
const (
	Earliest At = iota // the first offset that is still there
	Latest             // the high watermark
	Stable             // the last stable offset: below it no transaction is open
)

// ListedOffset is one answer of ListOffsets.
type ListedOffset struct {
	Offset int64
	Err    error // a kcode.Code is in its chain if the broker sent one
}

// ListOffsets asks the leaders of the partitions. The answer has an entry per partition; the error is for when no metadata could be had.
func (c *Client) ListOffsets(ctx context.Context, at At, tps []task.TopicPartition) (map[task.TopicPartition]ListedOffset, error) {
	when, isolation := sarama.OffsetNewest, sarama.ReadUncommitted
	switch at {
	case Earliest:
		when = sarama.OffsetOldest
	case Stable:
		isolation = sarama.ReadCommitted
	case Latest:
	}
	return c.list(ctx, tps, isolation, func(task.TopicPartition) int64 { return when })
}

// ListOffsetsSince asks for the first offset of each partition whose record has that timestamp, or a later one. Offset is -1 where there is
// none. Timestamps have milliseconds: what is more exact is rounded up. Times before 1970 are taken for its beginning.
func (c *Client) ListOffsetsSince(ctx context.Context, times map[task.TopicPartition]time.Time) (map[task.TopicPartition]ListedOffset, error) {
	return c.list(ctx, slices.Collect(maps.Keys(times)), sarama.ReadUncommitted, func(tp task.TopicPartition) int64 {
		return max(0, times[tp].Add(time.Millisecond-1).UnixMilli())
	})
}

// list asks each leader for what when says of its partitions: a timestamp in milliseconds, or one of the numbers that stand for an end.
func (c *Client) list(ctx context.Context, tps []task.TopicPartition, isolation sarama.IsolationLevel, when func(task.TopicPartition) int64) (map[task.TopicPartition]ListedOffset, error) {
	out := make(map[task.TopicPartition]ListedOffset, len(tps))
	leaders, err := c.byLeader(ctx, tps, func(tp task.TopicPartition, err error) { out[tp] = ListedOffset{Offset: -1, Err: err} })
	if err != nil {
		return nil, err
	}
	ask := func(l leaderParts) []ListedOffset {
		req := &sarama.OffsetRequest{Version: 5, IsolationLevel: isolation}
		for _, tp := range l.parts {
			req.AddBlock(tp.Topic, tp.Partition, when(tp), 1)
		}
		return c.listOn(ctx, l, req)
	}
	for _, answers := range onEach(leaders, ask) {
		for i, a := range answers.results {
			out[answers.parts[i]] = a
		}
	}
	return out, nil
}

// listOn asks one leader. The answers are in the order of its partitions.
func (c *Client) listOn(ctx context.Context, l leaderParts, req *sarama.OffsetRequest) []ListedOffset {
	var res *sarama.OffsetResponse
	err := c.call(ctx, l.addr, "ListOffsets", func(k *conn) (err error) {
		res, err = k.broker.GetAvailableOffsets(req)
		return err
	})
	out := make([]ListedOffset, len(l.parts))
	for i, tp := range l.parts {
		answer := ListedOffset{Offset: -1, Err: err}
		if err == nil {
			switch b := res.GetBlock(tp.Topic, tp.Partition); {
			case b == nil:
				answer.Err = fmt.Errorf("kafka: ListOffsets: the answer of %s says nothing of %s", l.addr, tp)
			case b.Err != sarama.ErrNoError:
				answer.Err = fmt.Errorf("kafka: ListOffsets of %s: %w", tp, kcode.Code(b.Err))
			default:
				answer.Offset = b.Offset
			}
		}
		out[i] = answer
	}
	return out
}

// leaderParts are the partitions to ask one broker about.
type leaderParts struct {
	addr  string
	parts []task.TopicPartition
}

// answered are the answers of one leader, in the order of its partitions.
type answered[T any] struct {
	parts   []task.TopicPartition
	results []T
}

// onEach asks all leaders at once, so that one that hangs does not hold up the others.
func onEach[T any](leaders []leaderParts, ask func(leaderParts) []T) []answered[T] {
	out := make([]answered[T], len(leaders))
	var all sync.WaitGroup
	for i, l := range leaders {
		all.Go(func() { out[i] = answered[T]{parts: l.parts, results: ask(l)} })
	}
	all.Wait()
	return out
}

// byLeader groups partitions by the address of their leader, sorted. Partitions without one are told to bad.
func (c *Client) byLeader(ctx context.Context, tps []task.TopicPartition, bad func(task.TopicPartition, error)) ([]leaderParts, error) {
	if len(tps) == 0 {
		return nil, nil
	}
	var topics []string
	for _, tp := range tps {
		topics = append(topics, tp.Topic)
	}
	slices.Sort(topics)
	m, err := c.Metadata(ctx, slices.Compact(topics))
	if err != nil {
		return nil, err
	}
	var out []leaderParts
	for _, tp := range slices.SortedFunc(slices.Values(tps), task.TopicPartition.Compare) {
		addr, err := m.leaderAddr(tp)
		if err != nil {
			bad(tp, err)
			continue
		}
		i := slices.IndexFunc(out, func(l leaderParts) bool { return l.addr == addr })
		if i < 0 {
			i = len(out)
			out = append(out, leaderParts{addr: addr})
		}
		out[i].parts = append(out[i].parts, tp)
	}
	slices.SortFunc(out, func(a, b leaderParts) int { return strings.Compare(a.addr, b.addr) })
	return out, nil
}

func (m *Metadata) leaderAddr(tp task.TopicPartition) (string, error) {
	t := m.Topics[tp.Topic]
	switch {
	case t == nil || t.Err == kcode.None && (tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions)):
		return "", fmt.Errorf("kafka: no partition %s: %w", tp, kcode.UnknownTopicOrPartition)
	case t.Err != kcode.None:
		return "", fmt.Errorf("kafka: topic %q: %w", tp.Topic, t.Err)
	}
	leader := t.Partitions[tp.Partition].Leader
	for _, b := range m.Brokers {
		if b.ID == leader {
			return b.Addr, nil
		}
	}
	return "", fmt.Errorf("kafka: %s has no leader: %w", tp, kcode.LeaderNotAvailable)
}
