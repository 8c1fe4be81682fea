package retry

import (
	"encoding/binary"
	"fmt"
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
	case s[0] == oursPrefix[0]:
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
	var room [maxBody]byte
	body, ok := appendUnbase91(room[:0], text)
	if !ok || len(body) <= checksumSize || binary.LittleEndian.Uint32(body) != checksum(offset, body[checksumSize:]) {
		return m, "damaged, or of another offset"
	}
	f := metadataFields{body: body[checksumSize+1:]}
	flags := body[checksumSize]
	m = f.metadata(flags, offset)
	switch {
	case flags&flagLater != 0:
		return m, "of a later version"
	case f.bad:
		return m, "malformed"
	case end >= 0 && m.Main > end:
		return m, fmt.Sprintf("it speaks of offsets up to %d, the log ends at %d", m.Main, end)
	case end >= 0 && m.Suspect >= end:
		return m, fmt.Sprintf("it names offset %d, the log ends at %d", m.Suspect, end)
	}
	ok = true
	switch flags & (flagBits | flagRuns) {
	case flagBits:
		m.Holes, ok = readBits(f.body, offset, m.Main)
	case flagRuns:
		m.Holes, ok = readRuns(f.body, offset, m.Main)
	case 0:
		ok = len(f.body) == 0
	default:
		ok = false
	}
	if !ok {
		return m, "malformed map"
	}
	return m, ""
}

// metadataFields reads numbers off the front of a body.
type metadataFields struct {
	body []byte
	bad  bool
}

func (f *metadataFields) metadata(flags byte, offset int64) Metadata {
	m := NewMetadata(offset)
	m.Main += f.number(uint64(math.MaxInt64 - offset))
	if flags&flagTime != 0 {
		m.StreamTime = f.signed()
	}
	if flags&flagHead != 0 {
		m.Head = &Head{Attempt: int(f.number(math.MaxInt32)), First: f.signed(), Due: f.signed()}
	}
	m.Running = flags&flagRunning != 0
	if flags&flagCounts != 0 {
		m.Starts, m.Deaths = int(f.number(math.MaxInt32)), int(f.number(math.MaxInt32))
	}
	if flags&flagSuspect != 0 {
		m.Suspect = f.number(math.MaxInt64)
	}
	f.bad = f.bad || m.StreamTime < -1
	return m
}

// number is one up to a bound.
func (f *metadataFields) number(most uint64) int64 {
	v, n := binary.Uvarint(f.body)
	if n <= 0 || v > most {
		f.bad = true
		return 0
	}
	f.body = f.body[n:]
	return int64(v)
}

func (f *metadataFields) signed() int64 {
	v, n := binary.Varint(f.body)
	if n <= 0 {
		f.bad = true
		return -1
	}
	f.body = f.body[n:]
	return v
}
