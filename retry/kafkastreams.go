package retry

import (
	"encoding/base64"
	"encoding/binary"
)

// Kafka Streams' own form of offset metadata: base64 of a version byte and the stream time, big endian. Version 2 may carry the metadata of
// processors after it, of which an empty one is no bytes at all.
const (
	streamsV1     = 1
	streamsV2     = 2
	streamsLength = 9
)

// encodeStreams is the metadata that Kafka Streams would write for a stream time in milliseconds; -1 is none yet there, too.
func encodeStreams(ms int64) string {
	var b [streamsLength]byte
	b[0] = streamsV2
	binary.BigEndian.PutUint64(b[1:], uint64(ms))
	return base64.StdEncoding.EncodeToString(b[:])
}

// decodeStreams reads what Kafka Streams has written. The metadata of its processors is left out; a time below zero is none.
func decodeStreams(metadata string) (ms int64, ok bool) {
	b, err := base64.StdEncoding.DecodeString(metadata)
	if err != nil || len(b) < streamsLength || b[0] != streamsV1 && b[0] != streamsV2 {
		return -1, false
	}
	return max(-1, int64(binary.BigEndian.Uint64(b[1:streamsLength]))), true
}
