package outside

import (
	"context"
	"errors"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

const (
	firstBytes = 16 << 10 // a broker gives the first batch whole, however large it is
	firstTries = 3
)

// First finds the first record of a span: its offset, and its timestamp in milliseconds. It reports false if there is none, or none that can be
// read now: only what compaction and transactions leave behind, or records of a transaction that is open. The connection is kept for the next
// partition of the same leader; Close ends it.
func (r *Reader) First(ctx context.Context, s Span) (offset, timestamp int64, found bool, err error) {
	for tries := 0; s.From < s.To; {
		batch, err := r.first(ctx, s)
		switch {
		case err == nil && batch.Next > s.From:
			records := r.records(batch, s.To)
			if len(records) > 0 {
				offset, timestamp, found = records[0].Offset, records[0].Timestamp, true
			}
			s.From = batch.Next
			r.Client.Recycle([]*task.Batch{batch})
			if found {
				return offset, timestamp, true, nil
			}
			continue
		case err == nil || errors.Is(err, errStill):
			return 0, 0, false, nil
		case errors.Is(err, kcode.OffsetOutOfRange): // retention has passed the position
			starts, err := r.Client.ListOffsets(ctx, kafka.Earliest, []task.TopicPartition{s.TopicPartition})
			if first := starts[s.TopicPartition]; err == nil && first.Err == nil && first.Offset > s.From {
				s.From = first.Offset
				continue
			}
		}
		r.Close()
		if tries++; tries == firstTries || errors.As(err, new(*kafka.CorruptBatchError)) {
			return 0, 0, false, err
		}
		if err := Sleep(ctx, Pause); err != nil {
			return 0, 0, false, err
		}
	}
	return 0, 0, false, nil
}

// first asks the leader once, on the connection of the partition before if that has the same.
func (r *Reader) first(ctx context.Context, s Span) (*task.Batch, error) {
	l, err := Leader(ctx, r.Client, s.TopicPartition)
	if err != nil {
		return nil, err
	}
	if r.conn != nil && r.leader != l.Leader {
		r.Close()
	}
	epoch := l.LeaderEpoch
	return r.fetch(ctx, s, &epoch, firstBytes)
}
