package kafka

import (
	"fmt"
	"slices"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

const (
	// maxOffsetMetadata is the broker's default bound (offset.metadata.max.bytes).
	maxOffsetMetadata = 4096
	// A commit is one atomic batch in the broker's log of 1 MB at most, so larger ones are split.
	maxCommitBytes  = 800_000
	commitPartBytes = 100
)

// CommitRequest commits offsets. Generation -1 with an empty MemberID commits without membership.
type CommitRequest struct {
	Group      string
	MemberID   string
	Generation int32
	Offsets    []task.InputOffset
}

// CommitResponse has one part per offset, in the order of the request.
type CommitResponse struct {
	Parts []CommittedPart
}

// CommittedPart is the outcome of one partition.
type CommittedPart struct {
	task.TopicPartition
	Code kcode.Code
}

// CommitOffsets checks the offsets (ErrInvalidCommit: nothing was sent), then commits them in as few requests as the broker's limits allow.
// After a transport error the parts of the requests that were answered before it are in the response; the outcome of the others is unknown.
func (g *GroupConn) CommitOffsets(r CommitRequest) (CommitResponse, error) {
	for _, o := range r.Offsets {
		if err := checkOffset(o); err != nil {
			return CommitResponse{}, err
		}
	}
	var out CommitResponse
	for rest := r.Offsets; len(rest) > 0; {
		n := commitChunk(rest)
		if err := g.commit(r, rest[:n], &out); err != nil {
			return out, err
		}
		rest = rest[n:]
	}
	return out, nil
}

// checkOffset refuses what a broker would take and corrupt, or refuse with less to go by.
func checkOffset(o task.InputOffset) error {
	if o.Offset < 0 {
		return fmt.Errorf("%w: %s: offset %d is negative", ErrInvalidCommit, o.TopicPartition, o.Offset)
	}
	if len(o.Metadata) > maxOffsetMetadata {
		return fmt.Errorf("%w: %s: metadata of %d bytes, a broker takes at most %d", ErrInvalidCommit, o.TopicPartition, len(o.Metadata), maxOffsetMetadata)
	}
	for i := range len(o.Metadata) {
		if o.Metadata[i] >= 0x80 {
			return fmt.Errorf("%w: %s: metadata is not ASCII at byte %d, a broker would change it", ErrInvalidCommit, o.TopicPartition, i)
		}
	}
	return nil
}

// commitChunk is how many of the offsets go into one request, at least one.
func commitChunk(offsets []task.InputOffset) int {
	size := 0
	for i, o := range offsets {
		size += commitPartBytes + len(o.Metadata)
		if size > maxCommitBytes && i > 0 {
			return i
		}
	}
	return len(offsets)
}

func (g *GroupConn) commit(r CommitRequest, offsets []task.InputOffset, out *CommitResponse) error {
	req := &sarama.OffsetCommitRequest{
		Version: 8, ConsumerGroup: r.Group, ConsumerID: r.MemberID, ConsumerGroupGeneration: r.Generation, RetentionTime: -1,
	}
	for _, o := range offsets {
		req.AddBlockWithLeaderEpoch(o.Topic, o.Partition, o.Offset, -1, 0, o.Metadata)
	}
	res, err := g.conn.broker.CommitOffset(req)
	if err != nil {
		return g.conn.fail("OffsetCommit", err)
	}
	for _, o := range offsets {
		code, ok := res.Errors[o.Topic][o.Partition]
		if !ok {
			return g.conn.fail("OffsetCommit", fmt.Errorf("the answer says nothing of %s", o.TopicPartition))
		}
		out.Parts = append(out.Parts, CommittedPart{TopicPartition: o.TopicPartition, Code: kcode.Code(code)})
	}
	return nil
}

// FetchOffsetsRequest asks for committed offsets: of Parts, or with All, where Parts is empty, of every partition of which there is one. With RequireStable a partition with a pending transaction answers UnstableOffsetCommit.
type FetchOffsetsRequest struct {
	Group         string
	Parts         []task.TopicPartition
	All           bool
	RequireStable bool
}

// FetchOffsetsResponse has one part per partition, in the order of the request, unless Code fails the whole group.
type FetchOffsetsResponse struct {
	Code  kcode.Code
	Parts []FetchedOffset
}

// FetchedOffset is a committed offset; Offset is -1 where none was committed.
type FetchedOffset struct {
	task.TopicPartition
	Offset   int64
	Metadata string
	Code     kcode.Code
}

// FetchOffsets asks for committed offsets. A group that the broker does not know has none; that is no error.
func (g *GroupConn) FetchOffsets(r FetchOffsetsRequest) (FetchOffsetsResponse, error) {
	// Version 7 is the newest with one group per request.
	req := &sarama.OffsetFetchRequest{Version: 7, ConsumerGroup: r.Group, RequireStable: r.RequireStable}
	for _, tp := range r.Parts {
		req.AddPartition(tp.Topic, tp.Partition)
	}
	res, err := g.conn.broker.FetchOffset(req)
	if err != nil {
		return FetchOffsetsResponse{}, g.conn.fail("OffsetFetch", err)
	}
	code := kcode.Code(res.Err)
	if code != kcode.None && code != kcode.GroupIDNotFound {
		return FetchOffsetsResponse{Code: code}, nil
	}
	parts := r.Parts
	if r.All {
		for topic, blocks := range res.Blocks {
			for p := range blocks {
				parts = append(parts, task.TopicPartition{Topic: topic, Partition: p})
			}
		}
		slices.SortFunc(parts, task.TopicPartition.Compare)
	}
	var out FetchOffsetsResponse
	for _, tp := range parts {
		part := FetchedOffset{TopicPartition: tp, Offset: -1}
		switch b := res.Blocks[tp.Topic][tp.Partition]; {
		case code != kcode.None:
		case b == nil: // not the same as "none committed", on which a reset of the position would follow
			return FetchOffsetsResponse{}, g.conn.fail("OffsetFetch", fmt.Errorf("the answer says nothing of %s", tp))
		default:
			part.Offset, part.Metadata, part.Code = b.Offset, b.Metadata, kcode.Code(b.Err)
		}
		if part.Code == kcode.GroupIDNotFound {
			part.Offset, part.Code = -1, kcode.None
		}
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}
