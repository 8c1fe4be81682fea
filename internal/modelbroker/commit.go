package modelbroker

import (
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

type committed struct {
	offset   int64
	metadata string
}

const metadataLimit = 4096 // offset.metadata.max.bytes

func (b *Broker) commitOffsets(node int32, r OffsetCommitRequest) Response {
	codes := make([]kcode.Code, len(r.Offsets))
	known := 0
	for i, o := range r.Offsets {
		// Looked up before the group is: a stale member too is told that a partition is unknown.
		if _, codes[i] = b.partition(o.TopicPartition); codes[i] == kcode.None {
			known++
		}
	}
	if known > 0 {
		b.commitKnown(node, r, codes)
	}
	return OffsetCommitResponse{Codes: codes}
}

// commitKnown deals with those whose code is NONE so far.
func (b *Broker) commitKnown(node int32, r OffsetCommitRequest, codes []kcode.Code) {
	g, code := b.coordinate(node, r.Group)
	if code == kcode.None {
		code = g.mayCommit(r.MemberID, r.Generation)
	}
	bytes := batchOverhead
	for i, o := range r.Offsets {
		if codes[i] == kcode.None && len(o.Metadata) > metadataLimit && code == kcode.None {
			codes[i] = kcode.OffsetMetadataTooLarge
		}
		if codes[i] == kcode.None {
			bytes += len(o.Metadata) + len(o.Topic) + len(r.Group) + 42
		}
	}
	if code == kcode.None {
		if m := g.member(r.MemberID); m != nil && (g.state == Stable || g.state == PreparingRebalance) {
			g.beat(m)
		}
		if bytes > recordLimit {
			code = kcode.Unknown
		}
	}
	for i, o := range r.Offsets {
		switch {
		case codes[i] != kcode.None:
		case code != kcode.None:
			codes[i] = code
		default:
			g.commit(r, o)
		}
	}
}

// mayCommit is the fencing of a commit by member, generation and state.
func (g *group) mayCommit(memberID string, generation int32) kcode.Code {
	switch {
	case !g.exists && generation >= 0:
		return kcode.IllegalGeneration
	case !g.exists:
		g.create()
		return kcode.None
	case generation < 0 && g.state == Empty:
		return kcode.None
	case g.member(memberID) == nil:
		return kcode.UnknownMemberID
	case generation != g.generation:
		return kcode.IllegalGeneration
	case g.state == CompletingRebalance:
		return kcode.RebalanceInProgress
	}
	return kcode.None
}

func (g *group) commit(r OffsetCommitRequest, o task.InputOffset) {
	before := int64(-1)
	if c, ok := g.offsets[o.TopicPartition]; ok {
		before = c.offset
	}
	// What is not UTF-8 is lost on the way into the broker's strings, byte by byte.
	g.offsets[o.TopicPartition] = committed{offset: o.Offset, metadata: string([]rune(o.Metadata))}
	if g.b.cfg.Committed != nil {
		g.b.cfg.Committed(Commit{
			At: g.b.now, Group: g.name, MemberID: r.MemberID, Generation: r.Generation, TopicPartition: o.TopicPartition,
			Before: before, Offset: o.Offset, Metadata: o.Metadata,
		})
	}
}

func (b *Broker) fetchOffsets(node int32, r OffsetFetchRequest) Response {
	g, code := b.coordinate(node, r.Group)
	if code != kcode.None {
		return OffsetFetchResponse{Code: code}
	}
	parts := r.Parts
	if parts == nil {
		parts = slices.SortedFunc(maps.Keys(g.offsets), task.TopicPartition.Compare)
	}
	resp := OffsetFetchResponse{}
	for _, tp := range parts {
		out := FetchedOffset{TopicPartition: tp, Offset: -1}
		if c, ok := g.offsets[tp]; ok {
			out.Offset, out.Metadata = c.offset, c.metadata
		}
		if r.RequireStable && g.unstable[tp] {
			out = FetchedOffset{TopicPartition: tp, Offset: -1, Code: kcode.UnstableOffsetCommit}
		}
		resp.Parts = append(resp.Parts, out)
	}
	return resp
}

// HoldOffset makes the committed offset of a partition unstable, as a transactional commit does until its markers are written; the same
// call with false ends it.
func (b *Broker) HoldOffset(now time.Time, group string, tp task.TopicPartition, hold bool) {
	b.Advance(now)
	g := b.group(group)
	delete(g.unstable, tp)
	if hold {
		g.unstable[tp] = true
	}
}
