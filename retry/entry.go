package retry

import (
	"strings"
	"unicode/utf8"
)

const (
	// Follows is the Due of an entry that waits behind another one of its key.
	Follows int64 = -1
	// MaxText is the most bytes that Kind, Class, Node and Message of an [Entry] take together. What is longer is cut when it is encoded.
	MaxText = 4096
	// maxName bounds Kind, Class and Node each, so that there is always room for a message.
	maxName = 256
)

// Entry is what a retry store knows of a record that was put aside, beside its [Payload]. It is small, and written anew after each try.
type Entry struct {
	Origin
	Key     []byte // the record's, as it was read
	NullKey bool   // it has none; such a record waits for no other
	Seq     uint64 // grows from entry to entry of a task: equal due times run by it, and so do the records of a key
	Attempt int    // tries that have failed
	First   int64  // milliseconds: the first failure; 0 before there is one
	Due     int64  // milliseconds: not to be tried before; Follows
	Wait    int64  // milliseconds: from when that was written until Due, by the clock that Due is of
	Stream  int64  // the task's stream time when the record arrived, in milliseconds; -1: none yet
	Kind    string // of the last failure
	Class   string
	Node    string
	Message string
	Root    Origin // of the record that this one was made from, in another subtopology; the zero Origin if it was made from none
	// Redriven counts how often the record has come back from the dead letters.
	Redriven int
	Bytes    int // of the payload
}

const entryVersion = 1

// Flags of a row.
const (
	entryNullKey = 1 << iota
	entryHasRoot
	entryUnknown // this flag and those above it are not known yet
)

// AppendEntry appends the row of e: what goes under [AppendEntryKey] of its Origin.
func AppendEntry(dst []byte, e *Entry) []byte {
	var flags byte
	if e.NullKey {
		flags |= entryNullKey
	}
	if e.Root != (Origin{}) {
		flags |= entryHasRoot
	}
	w := sealer{b: dst, start: len(dst)}
	w.byte(entryVersion)
	w.byte(flags)
	w.uvarint(e.Seq)
	w.uvarint(uint64(e.Attempt))
	w.varint(e.First)
	w.varint(e.Due)
	w.uvarint(uint64(max(e.Wait, 0)))
	w.varint(e.Stream)
	w.uvarint(uint64(e.Redriven))
	w.uvarint(uint64(e.Bytes))
	w.bytes(e.Key)
	kind, class, node := cut(e.Kind, maxName), cut(e.Class, maxName), cut(e.Node, maxName)
	w.string(kind)
	w.string(class)
	w.string(node)
	w.string(cut(e.Message, MaxText-len(kind)-len(class)-len(node)))
	if flags&entryHasRoot != 0 {
		w.string(e.Root.Topic)
		w.varint(int64(e.Root.Partition))
		w.varint(e.Root.Offset)
	}
	return w.seal(kindEntry, e.Origin)
}

// DecodeEntry reads the row of o. The Key is borrowed from b. The error is [ErrCorrupt] or [ErrNewer]; the Entry has its Origin then, and
// nothing else.
func DecodeEntry(o Origin, b []byte) (Entry, error) {
	body, err := unseal(b, kindEntry, o, entryVersion)
	if err != nil {
		return Entry{Origin: o}, err
	}
	r := reader{b: body}
	flags := r.byte()
	e := Entry{
		Origin: o, NullKey: flags&entryNullKey != 0,
		Seq: r.uvarint(), Attempt: r.int(), First: r.varint(), Due: r.varint(), Wait: int64(r.uvarint() &^ (1 << 63)), Stream: r.varint(), Redriven: r.int(), Bytes: r.int(),
		Key: r.bytes(), Kind: r.string(), Class: r.string(), Node: r.string(), Message: r.string(),
	}
	if flags&entryHasRoot != 0 {
		e.Root = Origin{Topic: r.string(), Partition: int32(r.varint()), Offset: r.varint()}
	}
	if r.bad || len(r.b) > 0 || flags >= entryUnknown || e.Due < Follows {
		return Entry{Origin: o}, ErrCorrupt
	}
	if e.NullKey {
		e.Key = nil
	}
	return e, nil
}

// cut shortens s to n bytes, between two characters, and makes it valid text.
func cut(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "?")
}
