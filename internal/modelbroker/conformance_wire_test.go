package modelbroker

import (
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// toWire is the model's request as the protocol has it, and fromWire the answer the other way.
func toWire(r Request) kmsg.Request {
	switch r := r.(type) {
	case JoinGroupRequest:
		out := kmsg.NewPtrJoinGroupRequest()
		out.Group, out.MemberID, out.ProtocolType = r.Group, r.MemberID, r.ProtocolType
		out.SessionTimeoutMillis, out.RebalanceTimeoutMillis = int32(r.Session.Milliseconds()), int32(r.Rebalance.Milliseconds())
		for _, p := range r.Protocols {
			out.Protocols = append(out.Protocols, kmsg.JoinGroupRequestProtocol{Name: p.Name, Metadata: p.Metadata})
		}
		return out
	case SyncGroupRequest:
		out := kmsg.NewPtrSyncGroupRequest()
		out.Group, out.MemberID, out.Generation = r.Group, r.MemberID, r.Generation
		out.ProtocolType, out.Protocol = &r.ProtocolType, &r.Protocol
		for _, a := range r.Plan {
			out.GroupAssignment = append(out.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: a.MemberID, MemberAssignment: a.Bytes})
		}
		return out
	case HeartbeatRequest:
		out := kmsg.NewPtrHeartbeatRequest()
		out.Group, out.MemberID, out.Generation = r.Group, r.MemberID, r.Generation
		return out
	case LeaveGroupRequest:
		out := kmsg.NewPtrLeaveGroupRequest()
		out.Group = r.Group
		for _, id := range r.MemberIDs {
			out.Members = append(out.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
		}
		return out
	case OffsetCommitRequest:
		return commitToWire(r)
	case OffsetFetchRequest:
		out := kmsg.NewPtrOffsetFetchRequest()
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = r.Group
		for _, p := range r.Parts {
			group.Topics = append(group.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: p.Topic, Partitions: []int32{p.Partition}})
		}
		out.Groups = append(out.Groups, group)
		return out
	case ProduceRequest:
		return produceToWire(r.Batches[0])
	}
	panic(fmt.Sprintf("no wire form of %T", r))
}

func commitToWire(r OffsetCommitRequest) kmsg.Request {
	out := kmsg.NewPtrOffsetCommitRequest()
	out.Group, out.MemberID, out.Generation = r.Group, r.MemberID, r.Generation
	for _, o := range r.Offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = o.Partition, o.Offset, &o.Metadata
		out.Topics = append(out.Topics, kmsg.OffsetCommitRequestTopic{Topic: o.Topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}})
	}
	return out
}

func produceToWire(in ProduceBatch) kmsg.Request {
	b := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, LastOffsetDelta: int32(len(in.Records) - 1), ProducerID: in.ProducerID, ProducerEpoch: in.Epoch,
		FirstSequence: in.FirstSequence, NumRecords: int32(len(in.Records)), FirstTimestamp: in.Records[0].Timestamp, MaxTimestamp: in.Records[0].Timestamp,
	}
	for i, r := range in.Records {
		rec := kmsg.Record{OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		rec.Length = int32(len(rec.AppendTo(nil)) - 1)
		b.Records = rec.AppendTo(b.Records)
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	out := kmsg.NewPtrProduceRequest()
	out.Version, out.Acks, out.TimeoutMillis = 9, -1, 1000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = in.Partition, b.AppendTo(nil)
	out.Topics = append(out.Topics, kmsg.ProduceRequestTopic{Topic: in.Topic, Partitions: []kmsg.ProduceRequestTopicPartition{p}})
	return out
}

func fromWire(r kmsg.Response) Response {
	switch r := r.(type) {
	case *kmsg.JoinGroupResponse:
		out := JoinGroupResponse{Code: kcode.Code(r.ErrorCode), Generation: r.Generation, Leader: r.LeaderID, MemberID: r.MemberID}
		if r.Protocol != nil {
			out.Protocol = *r.Protocol
		}
		for _, m := range r.Members {
			out.Members = append(out.Members, JoinedMember{ID: m.MemberID, Metadata: m.ProtocolMetadata})
		}
		return out
	case *kmsg.SyncGroupResponse:
		return SyncGroupResponse{Code: kcode.Code(r.ErrorCode), Assignment: r.MemberAssignment}
	case *kmsg.HeartbeatResponse:
		return HeartbeatResponse{Code: kcode.Code(r.ErrorCode)}
	case *kmsg.LeaveGroupResponse:
		out := LeaveGroupResponse{Code: kcode.Code(r.ErrorCode)}
		for _, m := range r.Members {
			out.Members = append(out.Members, kcode.Code(m.ErrorCode))
		}
		return out
	case *kmsg.OffsetCommitResponse:
		out := OffsetCommitResponse{}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				out.Codes = append(out.Codes, kcode.Code(p.ErrorCode))
			}
		}
		return out
	case *kmsg.OffsetFetchResponse:
		out := OffsetFetchResponse{Code: kcode.Code(r.Groups[0].ErrorCode)}
		for _, t := range r.Groups[0].Topics {
			for _, p := range t.Partitions {
				o := FetchedOffset{TopicPartition: tp(t.Topic, p.Partition), Code: kcode.Code(p.ErrorCode), Offset: p.Offset}
				if p.Metadata != nil {
					o.Metadata = *p.Metadata
				}
				out.Parts = append(out.Parts, o)
			}
		}
		return out
	case *kmsg.ProduceResponse:
		p := r.Topics[0].Partitions[0]
		return ProduceResponse{Parts: []ProducedPart{{TopicPartition: tp(r.Topics[0].Topic, p.Partition), Code: kcode.Code(p.ErrorCode), BaseOffset: p.BaseOffset}}}
	}
	panic(fmt.Sprintf("no answer of the model for %T", r))
}
