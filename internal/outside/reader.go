package outside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

const (
	// Stillness is how long nothing may move until whoever looks gives up.
	Stillness = 30 * time.Second
	// Pause is how long to wait between two tries.
	Pause = 200 * time.Millisecond

	patience   = 5 * time.Second // for a coordinator
	fetchBytes = 1 << 20
)

// Reader reads partitions, one fetch at a time: what it holds is no more than that, however much there is. It is for one goroutine.
type Reader struct {
	Client *kafka.Client

	conn   *kafka.FetchConn
	leader int32 // that it leads to
	reader task.Reader
	record task.Record
}

// Close closes its connection. A Reader that is closed may be used again.
func (r *Reader) Close() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// Scan gives f what a partition holds from one offset to below another, one fetch at a time. The records are borrowed until f returns, and
// next is the offset that f has everything below of: offsets in between that never come are those of compaction and of transactions.
func (r *Reader) Scan(ctx context.Context, s Span, f func(records []task.Record, next int64) error) error {
	defer r.Close() // another partition may have another leader
	epoch, moved := int32(-1), time.Now()
	for s.From < s.To {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		batch, err := r.fetch(ctx, s, &epoch, fetchBytes)
		switch {
		case err == nil && batch.Next > s.From:
			s.From, moved = min(batch.Next, s.To), time.Now()
			err = f(r.records(batch, s.To), s.From)
			r.Client.Recycle([]*task.Batch{batch})
			if err != nil {
				return err
			}
			continue
		case errors.Is(err, kcode.OffsetOutOfRange): // retention has passed the position
			starts, err := r.Client.ListOffsets(ctx, kafka.Earliest, []task.TopicPartition{s.TopicPartition})
			if first := starts[s.TopicPartition]; err == nil && first.Err == nil && first.Offset > s.From {
				s.From = min(first.Offset, s.To)
				if err := f(nil, s.From); err != nil {
					return err
				}
				continue
			}
		case err != nil:
			r.Close() // the next try asks who leads the partition
			if errors.As(err, new(*kafka.CorruptBatchError)) {
				return err
			}
		}
		if time.Since(moved) > Stillness {
			return fmt.Errorf("read %s: nothing has moved beyond offset %d for %v: %w", s.TopicPartition, s.From, Stillness, errors.Join(err, errStill))
		}
		if err := Sleep(ctx, Pause); err != nil {
			return err
		}
	}
	return nil
}

var errStill = errors.New("the broker answers with no records")

// fetch asks the leader once, for so many bytes.
func (r *Reader) fetch(ctx context.Context, s Span, epoch *int32, most int32) (*task.Batch, error) {
	if r.conn == nil {
		l, err := Leader(ctx, r.Client, s.TopicPartition)
		if err != nil {
			return nil, err
		}
		if r.conn, err = r.Client.DialFetch(ctx, l.Leader); err != nil {
			return nil, err
		}
		r.leader, *epoch = l.Leader, l.LeaderEpoch
	}
	conn := r.conn
	defer context.AfterFunc(ctx, conn.Close)()
	res, err := conn.Fetch(kafka.FetchRequest{
		MaxWait: Pause, MinBytes: 1, MaxBytes: most, ReadCommitted: true,
		Parts: []kafka.FetchPart{{TopicPartition: s.TopicPartition, Offset: s.From, LeaderEpoch: *epoch, MaxBytes: most}},
	})
	switch {
	case err != nil:
		return nil, err
	case res.Code != kcode.None:
		return nil, res.Code
	case len(res.Parts) == 0:
		return nil, errStill
	case res.Parts[0].Code != kcode.None:
		return nil, res.Parts[0].Code
	case res.Parts[0].Err != nil && res.Parts[0].Batch.Next == s.From:
		return nil, res.Parts[0].Err
	}
	return res.Parts[0].Batch, nil
}

// records decodes what lies below an offset.
func (r *Reader) records(b *task.Batch, below int64) []task.Record {
	out := make([]task.Record, 0, 64)
	for r.reader.Reset(b, 0); r.reader.Next(&r.record); {
		if r.record.Offset >= below {
			break
		}
		rec := r.record
		rec.Headers = append([]task.Header(nil), rec.Headers...) // the reader uses its own again
		out = append(out, rec)
	}
	return out
}

// Leader asks which broker leads a partition.
func Leader(ctx context.Context, client *kafka.Client, tp task.TopicPartition) (kafka.Partition, error) {
	md, err := client.Metadata(ctx, []string{tp.Topic})
	if err != nil {
		return kafka.Partition{}, err
	}
	t := md.Topics[tp.Topic]
	switch {
	case t == nil || t.Err == kcode.None && int(tp.Partition) >= len(t.Partitions):
		return kafka.Partition{}, fmt.Errorf("no partition %s: %w", tp, kcode.UnknownTopicOrPartition)
	case t.Err != kcode.None:
		return kafka.Partition{}, fmt.Errorf("topic %q: %w", tp.Topic, t.Err)
	case t.Partitions[tp.Partition].Leader < 0:
		return kafka.Partition{}, fmt.Errorf("%s has no leader: %w", tp, kcode.LeaderNotAvailable)
	}
	return t.Partitions[tp.Partition], nil
}

// Sleep waits for so long, or until the context ends, whose cause it returns then.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
