package virtual

import (
	"fmt"
	"strings"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// kindOfMessage says of what kind a message is, "" for one that is not worth a line.
func kindOfMessage(msg any) string {
	switch m := msg.(type) {
	case modelbroker.ProduceRequest:
		return "produce"
	case modelbroker.ProduceResponse:
		return "produced"
	case modelbroker.FetchResponse:
		for i := range m.Parts {
			if says(&m.Parts[i]) {
				return "fetched"
			}
		}
	case modelbroker.OffsetCommitRequest:
		return "commit"
	case modelbroker.OffsetCommitResponse:
		return "committed"
	case modelbroker.OffsetFetchResponse:
		return "offsets"
	case modelbroker.ListOffsetsResponse:
		return "ends"
	case modelbroker.HeartbeatResponse:
		if m.Code != kcode.None {
			return "heartbeat"
		}
	case modelbroker.JoinGroupRequest, modelbroker.JoinGroupResponse, modelbroker.SyncGroupRequest, modelbroker.SyncGroupResponse,
		modelbroker.LeaveGroupRequest, modelbroker.LeaveGroupResponse:
		return "group"
	}
	return ""
}

// says says that a part of a fetch is more than that there is nothing new.
func says(p *modelbroker.FetchedPart) bool { return len(p.Records) > 0 || p.Code != kcode.None }

// concerns says which partitions a message is about.
func (t *Trace) concerns(msg any) (on Parts) {
	switch m := msg.(type) {
	case modelbroker.ProduceRequest:
		for i := range m.Batches {
			on |= t.part(m.Batches[i].TopicPartition)
		}
	case modelbroker.ProduceResponse:
		for i := range m.Parts {
			on |= t.part(m.Parts[i].TopicPartition)
		}
	case modelbroker.FetchResponse:
		for i := range m.Parts {
			if part := &m.Parts[i]; says(part) {
				on |= t.part(part.TopicPartition)
			}
		}
	case modelbroker.OffsetCommitRequest:
		for i := range m.Offsets {
			on |= t.part(m.Offsets[i].TopicPartition)
		}
	case modelbroker.OffsetFetchResponse:
		for i := range m.Parts {
			on |= t.part(m.Parts[i].TopicPartition)
		}
	case modelbroker.ListOffsetsResponse:
		for i := range m.Parts {
			on |= t.part(m.Parts[i].TopicPartition)
		}
	}
	return on
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
		return fmt.Sprintf("join as %q", m.MemberID) + declared(m.Protocols[0].Metadata)
	case modelbroker.JoinGroupResponse:
		return "join: " + answer(m.Code, "generation %d with %d members, leads %v", m.Generation, len(m.Members), m.Leader == m.MemberID)
	case modelbroker.SyncGroupRequest:
		return fmt.Sprintf("sync generation %d, with %d assignments", m.Generation, len(m.Plan))
	case modelbroker.SyncGroupResponse:
		return "sync: " + answer(m.Code, "%d bytes", len(m.Assignment)) + given(m.Assignment)
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

// declared is what a member says of itself when it joins.
func declared(metadata []byte) string {
	s, err := assignor.DecodeSubscription(metadata)
	if err != nil {
		return ""
	}
	d, err := assignor.DecodeMemberData(s.UserData)
	if err != nil {
		return ""
	}
	out := fmt.Sprintf(", runs %v", s.Owned)
	if len(d.Released) > 0 {
		out += fmt.Sprintf(", gives up %v", d.Released)
	}
	if len(d.Unfit) > 0 {
		out += fmt.Sprintf(", must not have %v", d.Unfit)
	}
	if len(d.Replicas) > 0 {
		out += ", has " + list(d.Replicas, func(r assignor.Replica) string {
			text := fmt.Sprintf("%s of %v", kindOf(r.Kind), r.Task)
			if r.Lag >= 0 {
				text += fmt.Sprintf(" %d behind", r.Lag)
			}
			if r.Ready {
				text += " ready"
			}
			if r.Stalled {
				text += " stalled"
			}
			return text
		})
	}
	if d.Draining {
		out += ", is draining"
	}
	return out
}

func kindOf(k assignor.Kind) string {
	switch k {
	case assignor.Learner:
		return "learner"
	case assignor.Standby:
		return "standby"
	case assignor.OnDisk:
		return "state on disk"
	case assignor.Promised:
		return "promise"
	case assignor.Restoring:
		return "restored"
	}
	return "?"
}

// given is what a plan says for a member.
func given(assignment []byte) string {
	p, ok := PlanIn(assignment)
	if !ok {
		return ""
	}
	out := fmt.Sprintf(": runs %v", p.Active)
	if len(p.Marks) > 0 {
		out += ", until they move: " + list(p.Marks, func(k assignor.Mark) string {
			if k.Ready {
				return fmt.Sprintf("%v to %s, which is ready", k.Task, k.Receiver)
			}
			return fmt.Sprintf("%v to %s", k.Task, k.Receiver)
		})
	}
	if len(p.Learners) > 0 {
		out += ", learns " + list(p.Learners, func(in assignor.Incoming) string {
			if in.Instant {
				return in.Task.String() + " at once"
			}
			return in.Task.String()
		})
	}
	if len(p.Standbys) > 0 {
		out += ", keeps " + list(p.Standbys, func(c assignor.Copy) string { return c.Task.String() })
	}
	return out
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

// PlanIn is what the leader's plan says for a member in its assignment; false if nobody can read it.
func PlanIn(b []byte) (assignor.PlanData, bool) {
	a, err := assignor.DecodeAssignment(b)
	if err != nil || len(a.UserData) == 0 {
		return assignor.PlanData{}, err == nil
	}
	plan, err := assignor.DecodePlanData(a.UserData)
	return plan, err == nil
}
