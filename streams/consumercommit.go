package streams

import (
	"context"

	"github.com/understudy-streams/understudy/internal/consume"
	"github.com/understudy-streams/understudy/task"
)

type (
	// CommitRefusedError says that an offset was not committed and never will be, with the partition, the generation and the reason: the
	// partition is another member's by now, the broker does not allow it, the offset store has failed. Several come joined.
	CommitRefusedError = consume.CommitRefusedError
	// BrokersError says that no broker could be reached, and which addresses were tried. The consumer goes on trying.
	BrokersError = consume.BrokersError
	// NotAssignedError says that a partition is not read by this consumer.
	NotAssignedError = consume.NotAssignedError
)

// Commit commits the positions of all partitions: everything that was returned by Poll is done. It returns when the broker, or
// ConsumerConfig.Offsets, has them. A commit that meets a rebalance is made again under the next generation for as long as the partition
// is here, and refused with a [*CommitRefusedError] when it is not; the other partitions are committed. While brokers do not answer it is
// tried again until ctx ends, and after that in the background.
//
// It may be called from any goroutine, from a listener too. Commits are carried out in the order in which they were asked for.
func (c *Consumer) Commit(ctx context.Context) error { return c.shell.Commit(ctx, consume.Commit{}) }

// CommitRecords commits that these records are done, and with each everything before it in its partition: with one that is Replayed, what was
// left behind before it, and with another what was returned before it of what is new. It is refused for a record that was returned under
// an earlier assignment of its partition.
func (c *Consumer) CommitRecords(ctx context.Context, records ...ConsumerRecord) error {
	return c.shell.Commit(ctx, commitOf(records))
}

// CommitOffsets commits offsets: of each partition everything below is done. They may lie before what was committed last. While a partition has
// records that a crash has left behind, an offset up to the end of those (Recovery.Hi) is one of theirs and says nothing of what is new; a
// higher one is one of what is new and says nothing of them.
func (c *Consumer) CommitOffsets(ctx context.Context, offsets map[TopicPartition]int64) error {
	return c.shell.Commit(ctx, consume.Commit{Offsets: notNil(offsets)})
}

// CommitAsync commits as Commit does and does not wait. Done, which may be nil, is called with the outcome inside a later Poll, Commit or
// Close; callbacks come in the order of their commits.
func (c *Consumer) CommitAsync(done func(error)) { c.shell.CommitAsync(consume.Commit{}, done) }

// CommitRecordsAsync commits as CommitRecords does and does not wait.
func (c *Consumer) CommitRecordsAsync(done func(error), records ...ConsumerRecord) {
	c.shell.CommitAsync(commitOf(records), done)
}

// CommitOffsetsAsync commits as CommitOffsets does and does not wait.
func (c *Consumer) CommitOffsetsAsync(done func(error), offsets map[TopicPartition]int64) {
	c.shell.CommitAsync(consume.Commit{Offsets: notNil(offsets)}, done)
}

// notNil keeps a commit of nothing from being one of everything.
func notNil(offsets map[TopicPartition]int64) map[task.TopicPartition]int64 {
	out := make(map[task.TopicPartition]int64, len(offsets))
	for tp, offset := range offsets {
		out[tp] = offset
	}
	return out
}

func commitOf(records []ConsumerRecord) consume.Commit {
	out := consume.Commit{
		Offsets: map[task.TopicPartition]int64{}, Replayed: map[task.TopicPartition]int64{}, Lives: map[task.TopicPartition]uint64{},
	}
	for i := range records {
		r := &records[i]
		tp := r.TopicPartition()
		switch life, has := out.Lives[tp]; {
		case has && r.life < life:
			continue
		case !has || r.life > life:
			out.Lives[tp] = r.life
			delete(out.Offsets, tp)
			delete(out.Replayed, tp)
		}
		path := out.Offsets
		if r.Replayed {
			path = out.Replayed
		}
		path[tp] = max(path[tp], r.Offset+1)
	}
	return out
}
