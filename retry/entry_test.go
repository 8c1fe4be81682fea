package retry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawOrigin(t *rapid.T, label string) Origin {
	return Origin{
		Topic:     rapid.StringMatching(`[a-z][a-z0-9._-]{0,20}`).Draw(t, label+" topic"),
		Partition: rapid.Int32Min(0).Draw(t, label+" partition"),
		Offset:    rapid.Int64Min(0).Draw(t, label+" offset"),
	}
}

// drawRow is the origin of a record that a store has, which says its topic's id, where that is known.
func drawRow(t *rapid.T, label string) Origin {
	o := drawOrigin(t, label)
	copy(o.ID[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, label+" id"))
	return o
}

func drawEntry(t *rapid.T) Entry {
	e := Entry{
		Origin:  drawRow(t, "origin"),
		Seq:     rapid.Uint64().Draw(t, "seq"),
		Attempt: rapid.IntRange(0, 1<<31-1).Draw(t, "attempt"),
		First:   rapid.Int64().Draw(t, "first"), Due: rapid.Int64Min(Follows).Draw(t, "due"), Wait: rapid.Int64Min(0).Draw(t, "wait"), Stream: rapid.Int64Min(-1).Draw(t, "stream"),
		Kind: rapid.StringN(0, -1, maxName).Draw(t, "kind"), Class: rapid.StringN(0, -1, maxName).Draw(t, "class"),
		Node: rapid.StringN(0, -1, maxName).Draw(t, "node"), Message: rapid.StringN(0, -1, MaxText-3*maxName).Draw(t, "message"),
		Redriven: rapid.IntRange(0, 9).Draw(t, "redriven"), Bytes: rapid.IntRange(0, 1<<31-1).Draw(t, "bytes"),
		NullKey: rapid.Bool().Draw(t, "null"),
	}
	if !e.NullKey {
		e.Key = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "key")...)
	}
	if rapid.Bool().Draw(t, "root") {
		e.Root = drawOrigin(t, "root")
	}
	return e
}

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		b := AppendEntry([]byte("ahead"), &e)
		require.Equal(t, "ahead", string(b[:5]))
		got, err := DecodeEntry(e.Origin, b[5:])
		require.NoError(t, err)
		require.Equal(t, e, got)
	})
}

func TestAPayloadIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Payload{Timestamp: rapid.Int64().Draw(t, "timestamp"), NullValue: rapid.Bool().Draw(t, "null")}
		if !p.NullValue {
			p.Value = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "value")...)
		}
		for range rapid.IntRange(0, 5).Draw(t, "headers") {
			h := Header{Key: rapid.String().Draw(t, "name")}
			if rapid.Bool().Draw(t, "has value") {
				h.Value = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "header")...)
			}
			p.Headers = append(p.Headers, h)
		}
		o := drawRow(t, "origin")
		got, err := DecodePayload(o, AppendPayload(nil, o, &p))
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func TestKeysOfRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRow(t, "a"), drawRow(t, "b")
		entry, payload := AppendEntryKey(nil, a), AppendPayloadKey(nil, b)
		lo, hi := EntryRange()
		require.True(t, string(lo) <= string(entry) && string(entry) < string(hi))
		require.GreaterOrEqual(t, string(payload), string(hi))
		got, isPayload, err := ParseKey(entry)
		require.NoError(t, err)
		require.False(t, isPayload)
		require.Equal(t, a, got)
		got, isPayload, err = ParseKey(payload)
		require.NoError(t, err)
		require.True(t, isPayload)
		require.Equal(t, b, got)
		b.Topic, b.ID, b.Partition = a.Topic, a.ID, a.Partition
		require.Equal(t, a.Offset < b.Offset, string(entry) < string(AppendEntryKey(nil, b)))
	})
}

func TestKeysThatAreNone(t *testing.T) {
	good := string(AppendEntryKey(nil, Origin{Topic: "t", Partition: 1, Offset: 2}))
	for name, bad := range map[string]string{
		"empty": "", "no topic": "\x01" + good[2:], "another kind": "\x03" + good[1:], "short": good[:len(good)-1],
		"negative partition": "\x01t\x00\xff\xff\xff\xff" + good[7:], "negative offset": good[:7] + strings.Repeat("\xff", 8),
	} {
		_, _, err := ParseKey([]byte(bad))
		require.ErrorIs(t, err, errKey, name)
	}
}

func TestADamagedRowIsCorrupt(t *testing.T) {
	o := Origin{Topic: "t", Partition: 1, Offset: 2}
	entry := AppendEntry(nil, &Entry{Origin: o, Key: []byte("k"), Message: "m"})
	payload := AppendPayload(nil, o, &Payload{Value: []byte("v"), Headers: []Header{{Key: "h"}}})
	for i := range entry {
		for bit := range 8 {
			b := append([]byte(nil), entry...)
			b[i] ^= 1 << bit
			e, err := DecodeEntry(o, b)
			require.ErrorIs(t, err, ErrCorrupt)
			require.Equal(t, Entry{Origin: o}, e)
		}
		_, err := DecodeEntry(o, entry[:i])
		require.ErrorIs(t, err, ErrCorrupt)
	}
	for i := range payload {
		b := append([]byte(nil), payload...)
		b[i] ^= 1
		_, err := DecodePayload(o, b)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = DecodePayload(o, payload[:i])
		require.ErrorIs(t, err, ErrCorrupt)
	}
	_, err := DecodeEntry(Origin{Topic: "t", Partition: 1, Offset: 3}, entry)
	require.ErrorIs(t, err, ErrCorrupt, "of another record")
	_, err = DecodePayload(o, entry)
	require.ErrorIs(t, err, ErrCorrupt, "an entry is no payload")
}

func TestARowOfANewerVersionIsNotCorrupt(t *testing.T) {
	o := Origin{Topic: "t", Partition: 1, Offset: 2}
	for kind, decode := range map[byte]func([]byte) error{
		kindEntry:   func(b []byte) error { _, err := DecodeEntry(o, b); return err },
		kindPayload: func(b []byte) error { _, err := DecodePayload(o, b); return err },
	} {
		newer := &sealer{b: []byte{2, 'w', 'h', 'o', ' ', 'k', 'n', 'o', 'w', 's'}}
		require.ErrorIs(t, decode(newer.seal(kind, o)), ErrNewer)
		zero := &sealer{b: []byte{0, 1, 2}}
		require.ErrorIs(t, decode(zero.seal(kind, o)), ErrCorrupt)
	}
}

func TestTextIsCut(t *testing.T) {
	long := strings.Repeat("ö", MaxText)
	e := Entry{Origin: Origin{Topic: "t"}, Key: []byte{}, Kind: long, Class: long, Node: "n\xff", Message: long}
	got, err := DecodeEntry(e.Origin, AppendEntry(nil, &e))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ö", maxName/2), got.Kind)
	require.Equal(t, got.Kind, got.Class)
	require.Equal(t, "n?", got.Node)
	require.LessOrEqual(t, len(got.Kind)+len(got.Class)+len(got.Node)+len(got.Message), MaxText)
	require.GreaterOrEqual(t, len(got.Message), MaxText-3*maxName)
	require.True(t, strings.HasPrefix(long, got.Message))
}
