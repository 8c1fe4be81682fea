package task

import (
	"encoding/base64"
	"encoding/binary"
)

// Kafka Streams' own form of offset metadata: base64 of a version byte and the time, big endian. Version 2 may carry the metadata of
// processors after it, of which an empty one is no bytes at all.
const (
	metadataV1     = 1
	metadataV2     = 2
	metadataLength = 9
)

// EncodeStreamTime returns the commit metadata that carries a stream time in milliseconds (-1: none yet), in the form that Kafka Streams
// writes and reads.
func EncodeStreamTime(ms int64) string {
	var b [metadataLength]byte
	b[0] = metadataV2
	binary.BigEndian.PutUint64(b[1:], uint64(ms))
	return base64.StdEncoding.EncodeToString(b[:])
}

// DecodeStreamTime reads the stream time from commit metadata, ours or Kafka Streams'. Metadata of anybody else, or none, is an unknown
// time: -1 and false.
func DecodeStreamTime(metadata string) (ms int64, known bool) {
	if len(metadata) > maxMetadata {
		return -1, false
	}
	b, err := base64.StdEncoding.DecodeString(metadata)
	if err != nil || len(b) < metadataLength || b[0] != metadataV1 && b[0] != metadataV2 {
		return -1, false
	}
	ms = int64(binary.BigEndian.Uint64(b[1:metadataLength]))
	if ms < 0 {
		return -1, false
	}
	return ms, true
}

// maxMetadata is the broker's default of offset.metadata.max.bytes.
const maxMetadata = 4096
