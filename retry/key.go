package retry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A row of a retry store has the key
//
//	kind ‖ topic ‖ 01 ‖ id of the topic ‖ 00 ‖ partition ‖ offset
//
// so that all entries lie together, before all payloads, and a scan of the entries reads no payload. The numbers are big endian, of 4 and
// 8 bytes: the rows of a partition are in the order of its offsets. The keys are also those of the changelog, and so there for ever. Where the
// id is not known it is left out, with its mark, as in all keys before there were ids: who knows of none takes such a key for that of a topic
// which is not read, and refuses to go on.
//
// A crash may come between any two rows that are sent. In the first leg of a commit rows are put in the order of their keys, entries before
// payloads; in the second leg all payloads are deleted before any entry, both in the order of their keys. So there is never a payload without
// its entry, which nobody would find; and an active entry without its payload is done, and is to be deleted and not run. An inert one without
// its payload gets it again with its record.
const (
	kindEntry    = 1
	kindPayload  = 2
	idMark       = 1 // never in the name of a topic
	keyTailBytes = 1 + 4 + 8
)

// errKey is the error of bytes that are not the key of a row.
var errKey = errors.New("retry: malformed key")

// AppendEntryKey appends the key of the row that holds the [Entry] of o.
func AppendEntryKey(dst []byte, o Origin) []byte { return appendKey(dst, kindEntry, o) }

// AppendPayloadKey appends the key of the row that holds the [Payload] of o.
func AppendPayloadKey(dst []byte, o Origin) []byte { return appendKey(dst, kindPayload, o) }

func appendKey(dst []byte, kind byte, o Origin) []byte {
	dst = append(append(dst, kind), o.Topic...)
	if o.ID != (TopicID{}) {
		dst = append(append(dst, idMark), o.ID[:]...)
	}
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(o.Partition))
	return binary.BigEndian.AppendUint64(dst, uint64(o.Offset))
}

// ParseKey says which record's row has the key b, and whether it is that of the payload.
func ParseKey(b []byte) (o Origin, payload bool, err error) {
	end := len(b) - keyTailBytes
	switch {
	case end < 2:
		return Origin{}, false, fmt.Errorf("%w: %d bytes", errKey, len(b))
	case b[0] != kindEntry && b[0] != kindPayload:
		return Origin{}, false, fmt.Errorf("%w: kind %d", errKey, b[0])
	case b[end] != 0:
		return Origin{}, false, fmt.Errorf("%w: its topic does not end", errKey)
	}
	name, id, has := bytes.Cut(b[1:end], []byte{idMark})
	if o.Topic = string(name); has {
		if len(name) == 0 || copy(o.ID[:], id) != len(id) || len(id) != len(o.ID) || o.ID == (TopicID{}) {
			return Origin{}, false, fmt.Errorf("%w: its topic has no id of %d bytes", errKey, len(o.ID))
		}
	}
	o.Partition = int32(binary.BigEndian.Uint32(b[end+1:]))
	o.Offset = int64(binary.BigEndian.Uint64(b[end+5:]))
	if o.Partition < 0 || o.Offset < 0 {
		return Origin{}, false, fmt.Errorf("%w: partition %d, offset %d", errKey, o.Partition, o.Offset)
	}
	return o, b[0] == kindPayload, nil
}

// EntryRange returns the bounds of the keys of all entries: from lo up to, but not including, hi.
func EntryRange() (lo, hi []byte) { return []byte{kindEntry}, []byte{kindPayload} }
