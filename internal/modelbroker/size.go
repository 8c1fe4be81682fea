package modelbroker

import (
	"math/bits"

	"github.com/understudy-streams/understudy/task"
)

// batchBytes is the size of an uncompressed batch of format 2.
func batchBytes(records []task.Record) int {
	n := batchOverhead
	for _, r := range records {
		n += recordBytes(r.Key, r.Value, r.Headers, r.Timestamp-records[0].Timestamp, r.Offset-records[0].Offset)
	}
	return n
}

func outBytes(records []task.OutRecord) int {
	n := batchOverhead
	for i, r := range records {
		n += recordBytes(r.Key, r.Value, r.Headers, r.Timestamp-records[0].Timestamp, int64(i))
	}
	return n
}

func recordBytes(key, value []byte, headers []task.Header, timeDelta, offsetDelta int64) int {
	n := 1 + varintBytes(timeDelta) + varintBytes(offsetDelta) + fieldBytes(key) + fieldBytes(value) + varintBytes(int64(len(headers)))
	for _, h := range headers {
		n += varintBytes(int64(len(h.Key))) + len(h.Key) + fieldBytes(h.Value)
	}
	return n + varintBytes(int64(n))
}

func fieldBytes(b []byte) int {
	if b == nil {
		return varintBytes(-1)
	}
	return varintBytes(int64(len(b))) + len(b)
}

// varintBytes is the length of a zigzag varint.
func varintBytes(v int64) int {
	zigzag := uint64(v<<1) ^ uint64(v>>63)
	return max(1, (bits.Len64(zigzag)+6)/7)
}
