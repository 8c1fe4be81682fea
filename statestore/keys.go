package statestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A key in a database that holds many stores of many tasks is
//
//	task ‖ store id ‖ escaped, terminated key ‖ time ‖ sequence
//
// Task is two numbers of 4 bytes, the store id one. In the key, a zero byte is written as 00 FF, and 00 01 ends it: byte order is kept,
// and no encoded key begins another one, so that the rows of a key lie together, whatever follows it. Time (8 bytes) and sequence (4) are
// those of a window; a plain row has neither. All numbers are big endian, with the sign bit turned so that negative ones come first.

const (
	taskPrefixBytes  = 8
	storePrefixBytes = taskPrefixBytes + 4
	timeBytes        = 12
	keyZero          = 0xff // follows 00 for a zero byte of the key
	keyEnd           = 0x01 // follows 00 at the key's end
	signBit64        = 1 << 63
	signBit32        = 1 << 31
)

// AppendTaskPrefix appends what the keys of all rows of a task begin with.
func AppendTaskPrefix(dst []byte, id TaskID) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(id.Subtopology)^signBit32)
	return binary.BigEndian.AppendUint32(dst, uint32(id.Partition)^signBit32)
}

// AppendStorePrefix appends what the keys of all rows of a store begin with.
func AppendStorePrefix(dst []byte, id TaskID, store uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendTaskPrefix(dst, id), store)
}

// AppendKey appends key, escaped and terminated. Encoded keys compare as the keys do, also when more bytes follow them.
func AppendKey(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			break
		}
		dst = append(append(dst, key[:i]...), 0, keyZero)
		key = key[i+1:]
	}
	return append(append(dst, key...), 0, keyEnd)
}

// errKey is the error of bytes that are not an encoded key.
var errKey = errors.New("statestore: malformed key")

// CutKey decodes the key that b begins with, appends it to dst and returns what follows it.
func CutKey(dst, b []byte) (key, rest []byte, err error) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 || i+1 == len(b) {
			return dst, nil, fmt.Errorf("%w: it does not end", errKey)
		}
		dst = append(dst, b[:i]...)
		mark := b[i+1]
		b = b[i+2:]
		switch mark {
		case keyZero:
			dst = append(dst, 0)
		case keyEnd:
			return dst, b, nil
		default:
			return dst, nil, fmt.Errorf("%w: 00 %02x in it", errKey, mark)
		}
	}
}

// KeyLen returns the length of the encoded key that b begins with, or of all of b if it does not end there.
func KeyLen(b []byte) int {
	for n := 0; ; {
		i := bytes.IndexByte(b[n:], 0)
		if i < 0 || n+i+1 == len(b) {
			return len(b)
		}
		n += i + 2
		if b[n-1] == keyEnd {
			return n
		}
	}
}

// AppendTime appends the time (milliseconds) and sequence number that follow a window's key.
func AppendTime(dst []byte, t int64, seq uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t)^signBit64)
	return binary.BigEndian.AppendUint32(dst, seq)
}

// ParseTime decodes what AppendTime appends; b must hold nothing else.
func ParseTime(b []byte) (t int64, seq uint32, err error) {
	if len(b) != timeBytes {
		return 0, 0, fmt.Errorf("%w: %d bytes of time and sequence", errKey, len(b))
	}
	return int64(binary.BigEndian.Uint64(b) ^ signBit64), binary.BigEndian.Uint32(b[8:]), nil
}

// CutStore decodes the task and the store id that b begins with, and returns what follows them.
func CutStore(b []byte) (id TaskID, store uint32, rest []byte, err error) {
	if len(b) < storePrefixBytes {
		return TaskID{}, 0, nil, fmt.Errorf("%w: only %d bytes", errKey, len(b))
	}
	id.Subtopology = int32(binary.BigEndian.Uint32(b) ^ signBit32)
	id.Partition = int32(binary.BigEndian.Uint32(b[4:]) ^ signBit32)
	return id, binary.BigEndian.Uint32(b[8:]), b[storePrefixBytes:], nil
}

// SplitLen returns how much of a database key belongs to task, store and key; the rest is time and sequence. A bare prefix of a task or a
// store is whole.
func SplitLen(b []byte) int {
	if len(b) <= storePrefixBytes {
		return len(b)
	}
	return storePrefixBytes + KeyLen(b[storePrefixBytes:])
}

// PrefixEnd returns the first key after all that begin with prefix, in place; nil if there is none.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i]++; prefix[i] != 0 {
			return prefix[:i+1]
		}
	}
	return nil
}
