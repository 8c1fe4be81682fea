package modelbroker

import "github.com/understudy-streams/understudy/internal/kcode"

func (b *Broker) listOffsets(node int32, r ListOffsetsRequest) Response {
	resp := ListOffsetsResponse{Parts: make([]ListedOffset, len(r.Parts))}
	for i, part := range r.Parts {
		out := &resp.Parts[i]
		*out = ListedOffset{TopicPartition: part.TopicPartition, Offset: -1, LeaderEpoch: -1}
		p, code := b.partition(part.TopicPartition)
		if code == kcode.None {
			code = p.check(node, part.LeaderEpoch, true)
		}
		if code == kcode.None {
			code = b.leads(p, node)
		}
		if out.Code = code; code == kcode.None {
			out.Offset, out.LeaderEpoch = p.at(part.At), p.epoch
		}
	}
	return resp
}

func (p *partition) at(which At) int64 {
	switch which {
	case Earliest:
		return p.start
	case LastStable:
		return p.stable()
	default:
		return p.end
	}
}

func (b *Broker) deleteRecords(node int32, r DeleteRecordsRequest) Response {
	resp := DeleteRecordsResponse{Parts: make([]DeletedRecords, len(r.Parts))}
	for i, part := range r.Parts {
		p, code := b.partition(part.TopicPartition)
		if code == kcode.None {
			code = b.leads(p, node)
		}
		if code == kcode.None {
			code = p.deleteBefore(part.Before)
		}
		resp.Parts[i] = DeletedRecords{TopicPartition: part.TopicPartition, Code: code, LowWatermark: -1}
		if code == kcode.None {
			resp.Parts[i].LowWatermark = p.start
			b.wakeFetches(p)
		}
	}
	return resp
}

// deleteBefore moves the start of the log up; below the start there is nothing to do.
func (p *partition) deleteBefore(before int64) kcode.Code {
	if before == -1 {
		before = p.end
	}
	switch {
	case !p.topic.deletes:
		return kcode.PolicyViolation
	case before < 0 || before > p.end:
		return kcode.OffsetOutOfRange
	}
	p.trim(before)
	return kcode.None
}
