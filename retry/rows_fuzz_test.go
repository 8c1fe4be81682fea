package retry

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// resealed is b with a checksum that fits, so that the fuzzer comes past it.
func resealed(kind byte, o Origin, b []byte) []byte {
	w := sealer{b: bytes.Clone(b)}
	return w.seal(kind, o)
}

func FuzzDecodeEntry(f *testing.F) {
	o := Origin{Topic: "t", Partition: 1, Offset: 2}
	for _, e := range []Entry{{Origin: o}, {Origin: o, NullKey: true, Due: Follows, Root: o}, {Origin: o, Key: []byte("k"), Message: "m", Seq: 1 << 63}} {
		row := AppendEntry(nil, &e)
		f.Add(row[:len(row)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(o, resealed(kindEntry, o, b))
		if err != nil {
			require.Equal(t, Entry{Origin: o}, e)
			return
		}
		require.GreaterOrEqual(t, e.Due, Follows)
		require.GreaterOrEqual(t, min(e.Attempt, e.Redriven, e.Bytes), 0)
		again, err := DecodeEntry(o, AppendEntry(nil, &e))
		require.NoError(t, err)
		e.Kind, e.Class, e.Node = cut(e.Kind, maxName), cut(e.Class, maxName), cut(e.Node, maxName)
		e.Message = cut(e.Message, MaxText-len(e.Kind)-len(e.Class)-len(e.Node))
		require.Equal(t, e, again)
	})
}

func FuzzDecodePayload(f *testing.F) {
	o := Origin{Topic: "t", Partition: 1, Offset: 2}
	for _, p := range []Payload{{}, {NullValue: true, Timestamp: -1}, {Value: []byte("v"), Headers: []Header{{Key: "a"}, {Key: "b", Value: []byte{}}}}} {
		row := AppendPayload(nil, o, &p)
		f.Add(row[:len(row)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePayload(o, resealed(kindPayload, o, b))
		if err != nil {
			require.Zero(t, p)
			return
		}
		again, err := DecodePayload(o, AppendPayload(nil, o, &p))
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(AppendEntryKey(nil, Origin{Topic: "t", Partition: 1, Offset: 2}))
	f.Add(AppendPayloadKey(nil, Origin{Topic: "a\x00b"}))
	f.Add(AppendPayloadKey(nil, Origin{Topic: "a", ID: TopicID{1, 0, 2}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, payload, err := ParseKey(b)
		if err != nil {
			require.Zero(t, o)
			return
		}
		if payload {
			require.Equal(t, b, AppendPayloadKey(nil, o))
		} else {
			require.Equal(t, b, AppendEntryKey(nil, o))
		}
	})
}

// Headers come as pairs of a name and a value, each ended by a zero byte.
func FuzzParseLetter(f *testing.F) {
	l := testLetter()
	var all []byte
	for _, h := range l.AppendHeaders(nil, []Header{{Key: "a", Value: []byte("b")}}) {
		all = append(append(append(append(all, h.Key...), 0), h.Value...), 0)
	}
	f.Add(all)
	f.Add([]byte(HeaderTopic + "\x00t\x00" + HeaderPartition + "\x00-1\x00" + HeaderOffset + "\x0099999999999999999999\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var headers []Header
		parts := bytes.Split(b, []byte{0})
		for i := 0; i+1 < len(parts); i += 2 {
			headers = append(headers, Header{Key: string(parts[i]), Value: parts[i+1]})
		}
		l, original, ok := ParseLetter(headers)
		if !ok {
			require.Zero(t, l)
			require.Equal(t, headers, original)
			return
		}
		require.GreaterOrEqual(t, min(int64(l.Partition), l.Offset, int64(l.Attempts), l.First, int64(l.Redriven)), int64(0))
		require.LessOrEqual(t, max(l.Attempts, l.Redriven), maxCount)
		require.LessOrEqual(t, len(l.Message)+len(l.Stack), MaxText)
		again, left, ok := ParseLetter(l.AppendHeaders(nil, original))
		require.True(t, ok)
		require.Equal(t, l, again)
		require.Equal(t, original, left)
	})
}
