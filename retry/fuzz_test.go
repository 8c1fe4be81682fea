package retry

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParseMetadata(f *testing.F) {
	m := NewMetadata(90)
	m.Holes = []Run{{10, 12}, {50, 60}}
	for _, holes := range [][]Run{nil, m.Holes, {{10, 11}, {12, 13}, {14, 15}, {16, 17}}} {
		m.Holes, m.Head = holes, &Head{Attempt: 2, First: 5, Due: 7}
		text, _ := m.Encode(10)
		f.Add(text, int64(10), int64(90))
	}
	f.Add("AgAAAAAAAAPo", int64(10), int64(-1))
	f.Add("", int64(-5), int64(0))
	f.Fuzz(func(t *testing.T, text string, offset, end int64) {
		m, err := ParseMetadata(text, offset, end)
		if err != nil {
			require.Equal(t, NewMetadata(offset), m)
			require.NotEmpty(t, err.Error())
			return
		}
		requireSound(t, m, offset, end, text == "" || text[0] != '!')
	})
}

// The body behind a checksum that is right, as one who forges it would write it.
func FuzzMetadataBody(f *testing.F) {
	f.Add([]byte{flagRuns, 200, 1, 1, 0, 0, 0xff, 0xff, 0xff}, int64(10), int64(-1))
	f.Add([]byte{flagBits, 20, 0x55, 0x80}, int64(1<<63-1), int64(-1))
	f.Add([]byte{flagHead | flagCounts | flagSuspect | flagTime, 1, 2, 3, 4, 5, 6, 7, 8}, int64(0), int64(10))
	f.Add([]byte{flagMore | flagRunning, moreTopic, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, int64(0), int64(10))
	f.Add([]byte{flagMore | flagRunning, 2, 0}, int64(0), int64(10))
	f.Fuzz(func(t *testing.T, body []byte, offset, end int64) {
		if len(body) == 0 || len(body) > maxBody || offset < 0 {
			return
		}
		m, reason := parseBody(body, offset, end)
		if reason == "" {
			requireSound(t, m, offset, end, false)
		}
	})
}

func requireSound(t *testing.T, m Metadata, offset, end int64, streams bool) {
	require.GreaterOrEqual(t, m.Main, offset)
	require.GreaterOrEqual(t, m.StreamTime, int64(-1))
	require.True(t, tidyRuns(m.Holes, offset, m.Main))
	if end >= 0 && !streams {
		require.LessOrEqual(t, m.Main, end)
		require.Less(t, m.Suspect, end)
	}
	require.NotEmpty(t, m.String())
	w := Restore(offset, m.Main, m.Holes)
	require.GreaterOrEqual(t, w.Low(), offset)
	require.GreaterOrEqual(t, w.Width(), int64(0))
	if m.Main == offset && m.plain() {
		m.Topic = TopicID{} // a clean end does not say it
	}
	if text, fits := m.Encode(offset); fits && offset >= 0 {
		again, err := ParseMetadata(text, offset, -1)
		require.NoError(t, err)
		require.Equal(t, m, again)
	}
}

func FuzzBase91(f *testing.F) {
	f.Add([]byte{}, "")
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, "!1AAAA")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		coded := appendBase91([]byte("x"), b)
		require.Len(t, coded, 1+base91Length(len(b)))
		read, ok := appendUnbase91([]byte("y"), string(coded[1:]))
		require.True(t, ok)
		require.True(t, bytes.Equal(append([]byte("y"), b...), read))
		if read, ok := appendUnbase91(nil, text); ok {
			require.Equal(t, text, string(appendBase91(nil, read)))
		}
	})
}
