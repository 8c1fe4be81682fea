package statestore

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Changelog records are those of Kafka Streams. A key-value store writes its key and value as they are, with the row's timestamp as the
// record's timestamp. The keys of window and session stores are composed as below, so that either runtime can restore what the other wrote.

const (
	windowSuffixBytes  = 8 + 4
	sessionSuffixBytes = 8 + 8
)

// errChangelogKey is the error of bytes that are no changelog key of a window or session store.
var errChangelogKey = errors.New("statestore: malformed changelog key")

// AppendWindowKey appends the changelog key of a window: key, start in milliseconds, sequence number (0 unless duplicates are kept).
func AppendWindowKey(dst, key []byte, start int64, seq int32) []byte {
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(start))
	return binary.BigEndian.AppendUint32(dst, uint32(seq))
}

// ParseWindowKey decodes the changelog key of a window. key is part of b.
func ParseWindowKey(b []byte) (key []byte, start int64, seq int32, err error) {
	n := len(b) - windowSuffixBytes
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("%w: %d bytes are too few for a window", errChangelogKey, len(b))
	}
	return b[:n:n], int64(binary.BigEndian.Uint64(b[n:])), int32(binary.BigEndian.Uint32(b[n+8:])), nil
}

// AppendSessionKey appends the changelog key of a session: key, end, start, in milliseconds; the end comes first.
func AppendSessionKey(dst, key []byte, start, end int64) []byte {
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(end))
	return binary.BigEndian.AppendUint64(dst, uint64(start))
}

// ParseSessionKey decodes the changelog key of a session. key is part of b.
func ParseSessionKey(b []byte) (key []byte, start, end int64, err error) {
	n := len(b) - sessionSuffixBytes
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("%w: %d bytes are too few for a session", errChangelogKey, len(b))
	}
	return b[:n:n], int64(binary.BigEndian.Uint64(b[n+8:])), int64(binary.BigEndian.Uint64(b[n:])), nil
}
