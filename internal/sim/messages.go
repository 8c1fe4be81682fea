package sim

import (
	"fmt"
	"strings"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// concerns says of what kind a message is, "" for one that is not worth a line, and which partitions it is about.
func concerns(msg any) (kind string, on parts) {
	switch m := msg.(type) {
	case modelbroker.ProduceRequest:
		for i := range m.Batches {
			on |= partOf(m.Batches[i].TopicPartition)
		}
		return "produce", on
	case modelbroker.ProduceResponse:
		for i := range m.Parts {
			on |= partOf(m.Parts[i].TopicPartition)
		}
		return "produced", on
	case modelbroker.FetchResponse:
		for i := range m.Parts {
			if part := &m.Parts[i]; len(part.Records) > 0 || part.Code != kcode.None {
				kind, on = "fetched", on|partOf(part.TopicPartition)
			}
		}
		return kind, on
	case modelbroker.OffsetCommitRequest:
		for i := range m.Offsets {
			on |= partOf(m.Offsets[i].TopicPartition)
		}
		return "commit", on
	case modelbroker.OffsetCommitResponse:
		return "committed", 0
	case modelbroker.OffsetFetchResponse:
		for i := range m.Parts {
			on |= partOf(m.Parts[i].TopicPartition)
		}
		return "offsets", on
	case modelbroker.ListOffsetsResponse:
		for i := range m.Parts {
			on |= partOf(m.Parts[i].TopicPartition)
		}
		return "ends", on
	case modelbroker.HeartbeatResponse:
		if m.Code == kcode.None {
			return "", 0
		}
		return "heartbeat", 0
	case modelbroker.JoinGroupRequest, modelbroker.JoinGroupResponse, modelbroker.SyncGroupRequest, modelbroker.SyncGroupResponse,
		modelbroker.LeaveGroupRequest, modelbroker.LeaveGroupResponse:
		return "group", 0
	}
	return "", 0
}

// describe is a message as a person reads it.
func describe(msg any) string {
	switch m := msg.(type) {
	case modelbroker.ProduceRequest:
		return "produce " + list(m.Batches, func(b modelbroker.ProduceBatch) string {
			return fmt.Sprintf("%v epoch %d sequence %d records %d", b.TopicPartition, b.Epoch, b.FirstSequence, len(b.Records))
		})
	case modelbroker.ProduceResponse:
		return "produce: " + list(m.Parts, func(p modelbroker.ProducedPart) string {
			return partAnswer(p.TopicPartition, p.Code, "at %d", p.BaseOffset)
		})
	case modelbroker.FetchRequest:
		return "fetch " + list(m.Parts, func(p modelbroker.FetchPart) string { return fmt.Sprintf("%v at %d", p.TopicPartition, p.Offset) })
	case modelbroker.FetchResponse:
		return "fetch: " + list(m.Parts, fetched)
	case modelbroker.OffsetCommitRequest:
		var parts []string
		for _, o := range m.Offsets {
			parts = append(parts, fmt.Sprintf("%v at %d", o.TopicPartition, o.Offset))
		}
		return fmt.Sprintf("commit in generation %d: %s", m.Generation, strings.Join(parts, ", "))
	case modelbroker.OffsetCommitResponse:
		return "commit: " + list(m.Codes, kcode.Code.Error)
	case modelbroker.OffsetFetchResponse:
		return "committed: " + answer(m.Code, "") + list(m.Parts, func(p modelbroker.FetchedOffset) string {
			return partAnswer(p.TopicPartition, p.Code, "at %d", p.Offset)
		})
	case modelbroker.ListOffsetsResponse:
		return "bounds: " + list(m.Parts, func(p modelbroker.ListedOffset) string {
			return partAnswer(p.TopicPartition, p.Code, "at %d", p.Offset)
		})
	}
	return describeGroup(msg)
}

func describeGroup(msg any) string {
	switch m := msg.(type) {
	case modelbroker.JoinGroupRequest:
		return fmt.Sprintf("join as %q", m.MemberID)
	case modelbroker.JoinGroupResponse:
		return "join: " + answer(m.Code, "generation %d with %d members, leads %v", m.Generation, len(m.Members), m.Leader == m.MemberID)
	case modelbroker.SyncGroupRequest:
		return fmt.Sprintf("sync generation %d, with %d assignments", m.Generation, len(m.Plan))
	case modelbroker.SyncGroupResponse:
		return "sync: " + answer(m.Code, "%d bytes", len(m.Assignment))
	case modelbroker.HeartbeatRequest:
		return fmt.Sprintf("heartbeat in generation %d", m.Generation)
	case modelbroker.HeartbeatResponse:
		return "heartbeat: " + m.Code.Error()
	case modelbroker.LeaveGroupRequest:
		return "leave"
	case modelbroker.LeaveGroupResponse:
		return "leave: " + m.Code.Error()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", msg), "modelbroker.")
}

func list[T any](all []T, text func(T) string) string {
	out := make([]string, 0, len(all))
	for _, x := range all {
		if s := text(x); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

func fetched(p modelbroker.FetchedPart) string {
	if p.Code == kcode.None && len(p.Records) == 0 {
		return ""
	}
	return partAnswer(p.TopicPartition, p.Code, "up to %d", p.Next)
}

func partAnswer(tp task.TopicPartition, code kcode.Code, format string, at int64) string {
	return tp.String() + " " + answer(code, format, at)
}

// answer is the text, or what went wrong instead.
func answer(code kcode.Code, format string, args ...any) string {
	if code != kcode.None {
		return code.Error()
	}
	return fmt.Sprintf(format, args...)
}
