package retry

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
)

// MaxMetadata is how many characters a commit's metadata may have: the broker's default of offset.metadata.max.bytes.
const MaxMetadata = 4096

// Metadata is what a commit says of one partition beside its offset, which is the first that is not done.
type Metadata struct {
	StreamTime int64 // in milliseconds; -1 is none yet
	Main       int64 // the first offset that was never taken
	Holes      []Run // what is not done between the offset and Main, in order
	Head       *Head // of the record at the offset, if it has failed
	Running    bool  // the task was running, and may have ended in the middle of a record
	Starts     int   // runners that began here without getting on
	Suspect    int64 // the offset of a record that is run alone; -1 is none
	Deaths     int   // of processes in the middle of the suspect
	// Topic is the topic's id: the offset is not one of another topic that was made under its name. A clean end with nothing open does not say it.
	Topic TopicID
}

// Head is how far the tries of a record have come that is tried again in its place.
type Head struct {
	Attempt    int
	First, Due int64 // the first failure and the next try, in milliseconds
	Wait       int64 // milliseconds: from the last failure until Due, by the clock that Due is of
}

// NewMetadata says nothing but that everything below an offset is done.
func NewMetadata(offset int64) Metadata { return Metadata{StreamTime: -1, Main: offset, Suspect: -1} }

// Ours begins with two characters, of which the first never occurs in base64. Base91 of these bytes follows:
//
//	flags, 1 byte; with flagMore 1 byte more of them
//	Main less the offset, as a uvarint; what the flags announce, in their order; the map
//	CRC-32C of the committed offset (8 bytes, big endian) and of all that is above, 4 bytes, little endian
//
// The map is the holes from the offset on, either as bits (1 is open) up to the last hole's end, or as runs: their number as a uvarint, a byte
// for each of two orders, then in an Exp-Golomb code of these orders the distance of each run from the one before and its length, less one
// each (of the first run, the distance from the offset as it is).
const (
	mark        = "!"
	oursPrefix  = mark + "1"
	flagTime    = 1 << 0 // uvarint
	flagHead    = 1 << 1 // uvarint, varint, varint
	flagRunning = 1 << 2
	flagCounts  = 1 << 3 // starts and deaths, uvarints
	flagSuspect = 1 << 4 // uvarint
	flagBits    = 1 << 5
	flagRuns    = 1 << 6
	flagMore    = 1 << 7 // which the first version took for one that it did not know

	moreTopic = 1 << 0 // the id
	moreWait  = 1 << 1 // of the head, uvarint
	moreLater = ^(moreTopic | moreWait) & 0xff

	offsetBytes = 8
	// fieldBytes is what the fields take at most, with the checksum.
	fieldBytes = 104
	// maxBody is how many bytes fit behind the prefix.
	maxBody = (MaxMetadata - len(oursPrefix)) / 2 * pairBits / 8
)

// HalfReset is the metadata of commits by a reset from outside, until topics and state of the application are gone too: whoever begins there
// would add what comes again to what is there already, so nobody does.
const HalfReset = mark + "reset"

// Ours says that metadata was written by this runtime, in whichever version. What a clean end commits is not: that has Kafka Streams' form.
func Ours(s string) bool { return strings.HasPrefix(s, mark) }

// Encode is the text of the metadata for a commit of offset; false if it does not fit in [MaxMetadata] characters. What says nothing but the
// stream time has the form that Kafka Streams reads and writes.
func (m *Metadata) Encode(offset int64) (string, bool) {
	main := max(m.Main, offset)
	if main == offset && m.plain() {
		return encodeStreams(max(-1, m.StreamTime)), true
	}
	holes := m.Holes
	if !tidyRuns(holes, offset, main) {
		holes = clipRuns(holes, offset, main)
	}
	size := offsetBytes + fieldBytes
	if len(holes) > 0 {
		size = offsetBytes + maxBody + 4*spareBytes
	}
	body := binary.BigEndian.AppendUint64(make([]byte, 0, size), uint64(offset)) // the checksum takes it to the heap, and most have no holes
	body = m.appendFields(body, main-offset)
	body, ok := appendMap(body, offsetBytes, offsetBytes+maxBody-checksumBytes, offset, holes)
	if !ok {
		return "", false
	}
	body = binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
	var text [MaxMetadata]byte
	return string(appendBase91(append(text[:0], oursPrefix...), body[offsetBytes:])), true
}

// Fit is as Encode, but always fits: Main is lowered until it does. What is done above that comes again after a restart; again is how many
// offsets those are, with those that hold no record.
func (m *Metadata) Fit(offset int64) (text string, again int64) {
	part := *m
	for {
		if text, ok := part.Encode(offset); ok {
			return text, doneFrom(part.Main, m)
		}
		part.Main = offset + (part.Main-offset)/4*3
	}
}

// doneFrom is how many offsets from one on up to Main are done.
func doneFrom(offset int64, m *Metadata) int64 {
	done := max(0, m.Main-offset)
	for _, h := range clipRuns(m.Holes, offset, m.Main) {
		done -= h.Len()
	}
	return done
}

// plain says whether there is nothing but a stream time.
func (m *Metadata) plain() bool {
	return m.Head == nil && !m.Running && m.Starts <= 0 && m.Suspect < 0 && m.Deaths <= 0
}

// appendFields appends the flags, without those of a map, and the fields.
func (m *Metadata) appendFields(dst []byte, width int64) []byte {
	at := len(dst)
	dst = append(dst, 0)
	more := byte(0)
	if m.Topic != (TopicID{}) {
		more |= moreTopic
	}
	if m.Head != nil {
		more |= moreWait
	}
	if more != 0 {
		dst[at] |= flagMore
		dst = append(dst, more)
	}
	dst = binary.AppendUvarint(dst, uint64(width))
	if m.StreamTime >= 0 {
		dst[at] |= flagTime
		dst = binary.AppendUvarint(dst, uint64(m.StreamTime))
	}
	if h := m.Head; h != nil {
		dst[at] |= flagHead
		dst = binary.AppendUvarint(dst, countOf(h.Attempt))
		dst = binary.AppendVarint(dst, h.First)
		dst = binary.AppendVarint(dst, h.Due)
	}
	if m.Running {
		dst[at] |= flagRunning
	}
	if m.Starts > 0 || m.Deaths > 0 {
		dst[at] |= flagCounts
		dst = binary.AppendUvarint(dst, countOf(m.Starts))
		dst = binary.AppendUvarint(dst, countOf(m.Deaths))
	}
	if m.Suspect >= 0 {
		dst[at] |= flagSuspect
		dst = binary.AppendUvarint(dst, uint64(m.Suspect))
	}
	if m.Topic != (TopicID{}) {
		dst = append(dst, m.Topic[:]...)
	}
	if h := m.Head; h != nil {
		dst = binary.AppendUvarint(dst, uint64(max(h.Wait, 0)))
	}
	return dst
}

// countOf is a number that is never negative and fits an int everywhere.
func countOf(n int) uint64 { return uint64(min(max(n, 0), math.MaxInt32)) }
