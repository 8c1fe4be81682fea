package pebblestore

import (
	"encoding/binary"
	"fmt"

	"github.com/understudy-streams/understudy/statestore"
)

// Store ids begin at 1. Store 0 of a task holds the positions of its other stores, so that they go with the task when it is dropped; store
// 0 of the task below has the ids of all store names.
const metaStore = uint32(0)

var namesTask = statestore.TaskID{Subtopology: -1, Partition: -1}

const rowHeaderBytes = 8 // the timestamp ahead of a row's value

// appendPositionKey appends the key of a store's position.
func appendPositionKey(dst []byte, id statestore.TaskID, store uint32) []byte {
	return statestore.AppendKey(statestore.AppendStorePrefix(dst, id, metaStore), binary.BigEndian.AppendUint32(nil, store))
}

// appendNameKey appends the key of a store name's id.
func appendNameKey(dst []byte, name string) []byte {
	return statestore.AppendKey(statestore.AppendStorePrefix(dst, namesTask, metaStore), []byte(name))
}

// formatError says that what lies in the database was not written by this package, or not so.
type formatError struct{ text string }

func (e *formatError) Error() string { return "pebblestore: " + e.text }

func malformed(format string, args ...any) error {
	return &formatError{fmt.Sprintf(format, args...)}
}

// parseKey decodes a key, after its store's prefix, into dst.
func parseKey(dst, b []byte) ([]byte, error) {
	key, rest, err := statestore.CutKey(dst, b)
	if err != nil {
		return nil, malformed("%v", err)
	}
	if len(rest) != 0 {
		return nil, malformed("%d bytes after a key", len(rest))
	}
	return key, nil
}

// position is how far a store has been written: an offset, and the id of the topic that it is an offset of, zero if that was not known.
// They are one value, so that neither is ever there without the other.
type position struct {
	offset    int64
	changelog [16]byte
}

const positionBytes = 8 + 16

func appendPosition(dst []byte, p position) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(p.offset)), p.changelog[:]...)
}

func parsePosition(b []byte) (position, error) {
	if len(b) != positionBytes {
		return position{}, malformed("a position has %d bytes, not %d", len(b), positionBytes)
	}
	p := position{offset: int64(binary.BigEndian.Uint64(b)), changelog: [16]byte(b[8:])}
	if p.offset < 0 {
		return position{}, malformed("position %d is negative", p.offset)
	}
	return p, nil
}

func appendStoreID(dst []byte, id uint32) []byte { return binary.BigEndian.AppendUint32(dst, id) }

func parseStoreID(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, malformed("a store id has %d bytes, not 4", len(b))
	}
	id := binary.BigEndian.Uint32(b)
	if id == metaStore {
		return 0, malformed("store id %d is reserved", id)
	}
	return id, nil
}

// putRow writes a row into dst, which has rowHeaderBytes more room than value.
func putRow(dst, value []byte, ts int64) {
	binary.BigEndian.PutUint64(dst, uint64(ts))
	copy(dst[rowHeaderBytes:], value)
}

func parseRow(b []byte) (statestore.Row, error) {
	if len(b) < rowHeaderBytes {
		return statestore.Row{}, malformed("a row has %d bytes, at least %d are its timestamp", len(b), rowHeaderBytes)
	}
	return statestore.Row{Value: b[rowHeaderBytes:], Timestamp: int64(binary.BigEndian.Uint64(b))}, nil
}
