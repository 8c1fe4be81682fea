package pebblestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func FuzzPosition(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendPosition(nil, position{}))
	f.Add(appendPosition(nil, position{offset: 1 << 40, changelog: [16]byte{1, 15: 16}}))
	f.Add(appendPosition(nil, position{offset: -1}))
	f.Add(make([]byte, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePosition(b); err == nil {
			require.GreaterOrEqual(t, p.offset, int64(0))
			require.Equal(t, b, appendPosition(nil, p))
		}
	})
}

func TestPositionOnDisk(t *testing.T) {
	p := position{offset: 0x0102030405060708, changelog: [16]byte([]byte("a topic's own id"))}
	require.Equal(t, "\x01\x02\x03\x04\x05\x06\x07\x08a topic's own id", string(appendPosition(nil, p)))
	_, err := parsePosition([]byte("12345678"))
	require.ErrorContains(t, err, "8 bytes, not 24")
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

func FuzzKey(f *testing.F) {
	prefix := len(statestore.AppendStorePrefix(nil, namesTask, metaStore))
	f.Add([]byte{})
	f.Add(appendNameKey(nil, "a store")[prefix:])
	f.Add(appendPositionKey(nil, oneTask, 1)[prefix:])
	f.Add([]byte("a\x00\x01b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, err := parseKey(nil, b); err == nil {
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
