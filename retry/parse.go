package retry

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
)

// MetadataError is metadata of a commit that cannot be relied on: another program's, damaged, of another offset, or of a later version.
type MetadataError struct {
	Metadata string
	Offset   int64 // the committed one
	Reason   string
}

func (e *MetadataError) Error() string {
	const shown = 40
	s := e.Metadata
	if len(s) > shown {
		s = s[:shown] + "..."
	}
	return fmt.Sprintf("retry: metadata %q of offset %d: %s", s, e.Offset, e.Reason)
}

// ParseMetadata reads the metadata of a committed offset, ours or Kafka Streams'; none is a new start. The end of the partition's log bounds
// what it may speak of; -1 is unknown. The error is a [*MetadataError]; with it comes what nothing is known of: everything from the offset on
// is to be processed.
func ParseMetadata(s string, offset, end int64) (Metadata, error) {
	m, reason := parseMetadata(s, offset, end)
	if reason != "" {
		return NewMetadata(offset), &MetadataError{Metadata: s, Offset: offset, Reason: reason}
	}
	return m, nil
}

func parseMetadata(s string, offset, end int64) (m Metadata, reason string) {
	m = NewMetadata(offset)
	switch {
	case s == "":
		return m, ""
	case len(s) > MaxMetadata:
		return m, "too long"
	case offset < 0:
		return m, "the offset is negative"
	case strings.HasPrefix(s, oursPrefix):
		return parseOurs(s[len(oursPrefix):], offset, end)
	case s == HalfReset:
		return m, "a reset of the application was begun and is not finished"
	case Ours(s):
		return m, "of an unknown version"
	}
	ms, ok := decodeStreams(s)
	if !ok {
		return m, "of another program, or damaged"
	}
	m.StreamTime = ms
	return m, ""
}

func parseOurs(text string, offset, end int64) (m Metadata, reason string) {
	room := make([]byte, 0, offsetBytes+len(text)+2*spareBytes) // the checksum takes it to the heap: most are short
	body, ok := appendUnbase91(binary.BigEndian.AppendUint64(room, uint64(offset)), text)
	if !ok || len(body) <= offsetBytes+checksumBytes {
		return m, "damaged"
	}
	body, sum := body[:len(body)-checksumBytes], body[len(body)-checksumBytes:]
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(body, castagnoli) {
		return m, "damaged, or of another offset"
	}
	return parseBody(body[offsetBytes:], offset, end)
}

func parseBody(body []byte, offset, end int64) (m Metadata, reason string) {
	r := reader{b: body}
	flags, more := r.byte(), byte(0)
	if flags&flagMore != 0 {
		more = r.byte()
	}
	m = readFields(&r, flags, more, offset)
	switch {
	case more&moreLater != 0:
		return m, "of a later version"
	case r.bad:
		return m, "malformed"
	case end >= 0 && m.Main > end:
		return m, fmt.Sprintf("it speaks of offsets up to %d, the log ends at %d", m.Main, end)
	case end >= 0 && m.Suspect >= end:
		return m, fmt.Sprintf("it names offset %d, the log ends at %d", m.Suspect, end)
	}
	ok := false
	switch flags & (flagBits | flagRuns) {
	case flagBits:
		m.Holes, ok = readBits(r.b, offset, m.Main)
	case flagRuns:
		m.Holes, ok = readRuns(r.b, offset, m.Main)
	case 0:
		ok = len(r.b) == 0
	}
	if !ok {
		return m, "malformed map"
	}
	return m, ""
}

func readFields(r *reader, flags, more byte, offset int64) Metadata {
	m := NewMetadata(offset)
	m.Main += upTo(r, math.MaxInt64-offset)
	if flags&flagTime != 0 {
		m.StreamTime = upTo(r, math.MaxInt64)
	}
	if flags&flagHead != 0 {
		m.Head = &Head{Attempt: r.int(), First: r.varint(), Due: r.varint()}
		m.Head.Wait = max(m.Head.Due-m.Head.First, 0) // the most that it can have been by one clock, where a commit of before does not say
	}
	m.Running = flags&flagRunning != 0
	if flags&flagCounts != 0 {
		m.Starts, m.Deaths = r.int(), r.int()
	}
	if flags&flagSuspect != 0 {
		m.Suspect = upTo(r, math.MaxInt64)
	}
	if more&moreTopic != 0 {
		copy(m.Topic[:], r.take(uint64(len(m.Topic))))
	}
	if more&moreWait != 0 {
		wait := upTo(r, math.MaxInt64)
		if m.Head != nil {
			m.Head.Wait = wait
		}
	}
	return m
}

// upTo reads a number that is not negative, up to a bound.
func upTo(r *reader, most int64) int64 {
	v := r.uvarint()
	if v > uint64(most) {
		r.bad, r.b = true, nil
		return 0
	}
	return int64(v)
}
