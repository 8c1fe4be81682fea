package pebblestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func FuzzPosition(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendPosition(nil, 0))
	f.Add(appendPosition(nil, 1<<40))
	f.Add(appendPosition(nil, -1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePosition(b); err == nil {
			require.GreaterOrEqual(t, p, int64(0))
			require.Equal(t, b, appendPosition(nil, p))
		}
	})
}

func FuzzStoreID(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendStoreID(nil, metaStore))
	f.Add(appendStoreID(nil, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := parseStoreID(b); err == nil {
			require.NotEqual(t, metaStore, id)
			require.Equal(t, b, appendStoreID(nil, id))
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("12345678"))
	f.Add([]byte("12345678value"))
	f.Fuzz(func(t *testing.T, b []byte) {
		row, err := parseRow(b)
		if err != nil {
			return
		}
		require.NotNil(t, row.Value)
		again := make([]byte, rowHeaderBytes+len(row.Value))
		putRow(again, row.Value, row.Timestamp)
		require.Equal(t, b, again)
	})
}

func FuzzMetaKey(f *testing.F) {
	prefix := len(statestore.AppendStorePrefix(nil, namesTask, metaStore))
	f.Add([]byte{})
	f.Add(appendNameKey(nil, "a store")[prefix:])
	f.Add(appendPositionKey(nil, oneTask, 1)[prefix:])
	f.Add([]byte("a\x00\x01b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, err := parseMetaKey(b); err == nil {
			require.Equal(t, b, statestore.AppendKey(nil, key))
		}
	})
}

func FuzzProcessID(f *testing.F) {
	f.Add([]byte("00112233445566778899aabbccddeeff\n"))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, ok := parseProcessID(b); !ok {
			require.Zero(t, id)
		}
	})
}
