package retry_test

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/retry"
)

func metadataGen() *rapid.Generator[retry.Metadata] {
	return rapid.Custom(func(t *rapid.T) retry.Metadata {
		m := retry.NewMetadata(offsetOf(t))
		m.StreamTime = rapid.Int64Min(-1).Draw(t, "stream time")
		m.Holes = runsFrom(t, m.Main)
		if n := len(m.Holes); n > 0 {
			m.Main = m.Holes[n-1].To + rapid.Int64Range(0, 1<<20).Draw(t, "done above")
		}
		if rapid.Bool().Draw(t, "head") {
			m.Head = &retry.Head{
				Attempt: rapid.IntRange(0, math.MaxInt32).Draw(t, "attempt"),
				First:   rapid.Int64().Draw(t, "first"), Due: rapid.Int64().Draw(t, "due"),
				Wait: rapid.Int64Min(0).Draw(t, "wait"),
			}
		}
		m.Running = rapid.Bool().Draw(t, "running")
		m.Starts = rapid.IntRange(0, math.MaxInt32).Draw(t, "starts")
		m.Suspect = rapid.Int64Min(-1).Draw(t, "suspect")
		m.Deaths = rapid.IntRange(0, 9).Draw(t, "deaths")
		if m.Running { // else it may be the clean end of Kafka Streams' form
			copy(m.Topic[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "topic"))
		}
		return m
	})
}

func offsetOf(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 1<<30), rapid.Int64Range(0, 1<<61)).Draw(t, "offset")
}

// runsFrom draws holes of all kinds: dense and sparse, short and long, regular and not.
func runsFrom(t *rapid.T, offset int64) (runs []retry.Run) {
	most := rapid.SampledFrom([]int64{1, 2, 7, 100, 1 << 20, 1 << 40}).Draw(t, "scale")
	at := offset + rapid.Int64Range(0, 1).Draw(t, "done first")
	for range rapid.IntRange(0, 200).Draw(t, "runs") {
		length := rapid.Int64Range(1, most).Draw(t, "length")
		runs = append(runs, retry.Run{From: at, To: at + length})
		at += length + rapid.Int64Range(1, most).Draw(t, "gap")
	}
	return runs
}

func TestMetadataSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := metadataGen().Draw(t, "metadata")
		offset := m.Main
		if len(m.Holes) > 0 {
			offset = m.Holes[0].From - rapid.Int64Range(0, min(3, m.Holes[0].From)).Draw(t, "below")
		}
		text, fits := m.Encode(offset)
		require.True(t, fits)
		require.LessOrEqual(t, len(text), retry.MaxMetadata)
		read, err := retry.ParseMetadata(text, offset, -1)
		require.NoError(t, err)
		if read.Holes == nil {
			read.Holes = m.Holes[:0]
		}
		require.Equal(t, m, read)

		_, err = retry.ParseMetadata(text, offset, m.Main-1)
		if strings.HasPrefix(text, "!") && m.Main > 0 {
			require.Error(t, err, "the log ends before")
		}
	})
}

func TestHolesOutsideAreLeftOutOfTheText(t *testing.T) {
	m := retry.NewMetadata(20)
	m.Holes = []retry.Run{{5, 12}, {12, 13}, {15, 15}, {16, 18}, {17, 19}, {19, 30}, {40, 50}}
	text, fits := m.Encode(10)
	require.True(t, fits)
	read, err := retry.ParseMetadata(text, 10, 20)
	require.NoError(t, err)
	require.Equal(t, []retry.Run{{10, 13}, {16, 20}}, read.Holes)
}

// Maps of the width that is promised to fit do, with everything else said at its longest, whatever is open.
func TestMapRoomIsThere(t *testing.T) {
	require.GreaterOrEqual(t, retry.MapRoom, 24_576, "base64 of as many bits would fill the metadata")
	encode := func(m retry.Metadata) {
		m.StreamTime, m.Running, m.Starts, m.Deaths, m.Suspect = math.MaxInt64, true, math.MaxInt32, math.MaxInt32, math.MaxInt64
		m.Topic = retry.TopicID{1, 2, 3}
		m.Head = &retry.Head{Attempt: math.MaxInt32, First: math.MinInt64, Due: math.MinInt64, Wait: math.MaxInt64}
		m.Main = math.MaxInt64
		text, fits := m.Encode(0)
		require.True(t, fits)
		read, err := retry.ParseMetadata(text, 0, -1)
		require.NoError(t, err)
		require.Equal(t, m, read)
	}
	for seed, share := range []float64{0.001, 0.01, 0.1, 0.2, 0.22, 0.25, 0.3, 0.5, 0.75, 0.9, 0.999} {
		encode(randomMap(uint64(seed), retry.MapRoom, share))
	}
	for every := int64(2); every < 12; every++ {
		m := retry.NewMetadata(retry.MapRoom)
		for at := int64(0); at+every <= retry.MapRoom; at += every {
			m.Holes = append(m.Holes, retry.Run{From: at, To: at + every/2})
		}
		encode(m)
	}
}

// A window that says it is within the room has a map that fits.
func TestMapBitsAreTheMost(t *testing.T) {
	check := func(t require.TestingT, w *retry.Window) {
		m := retry.NewMetadata(w.Next())
		m.Holes = w.Holes(nil)
		text, fits := m.Encode(w.Low())
		require.True(t, fits || w.MapBits() > retry.MapRoom, "%d bits", w.MapBits())
		if fits && len(m.Holes) > 0 {
			const rest = 40 // of what is not the map
			require.LessOrEqual(t, len(text), int(w.MapBits()*2/13)+rest)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		runs := runsFrom(t, 0)
		main := int64(0)
		if n := len(runs); n > 0 {
			main = runs[n-1].To
		}
		check(t, retry.Restore(0, main, runs))
	})
	for _, gap := range []int64{2, 3, 5, 8, 17, 64, 1000, 1 << 30} {
		w := retry.NewWindow(0)
		for offset := int64(0); w.MapBits() <= retry.MapRoom && offset < 50_000*gap; offset += gap {
			w.Taken(offset)
		}
		check(t, w)
	}
}

func TestOneStuckRecordTakesLittleRoom(t *testing.T) {
	w := retry.NewWindow(0)
	for offset := range int64(50_001) {
		w.Taken(offset)
	}
	for offset := range int64(50_000) {
		w.Done(offset + 1)
	}
	require.Less(t, w.MapBits(), int64(64))
	m := retry.NewMetadata(w.Next())
	m.Holes = w.Holes(nil)
	text, fits := m.Encode(w.Low())
	require.True(t, fits)
	require.Less(t, len(text), 24)
}

func TestMetadataForPeople(t *testing.T) {
	m := retry.NewMetadata(120)
	require.Equal(t, "stream time none, main 120", m.String())
	m = retry.Metadata{
		StreamTime: 1_700_000_000_123, Main: 120, Holes: []retry.Run{{70, 71}, {75, 80}},
		Head:    &retry.Head{Attempt: 3, First: 1_700_000_000_000, Due: 1_700_000_060_000},
		Running: true, Starts: 2, Suspect: 71, Deaths: 1,
	}
	require.Equal(t, "stream time 2023-11-14T22:13:20.123Z, main 120, open 6 [70 75-79], head attempt 3 first 2023-11-14T22:13:20.000Z "+
		"due 2023-11-14T22:14:20.000Z, running, starts 2, suspect 71, deaths 1", m.String())
	m.Holes = nil
	for i := range int64(40) {
		m.Holes = append(m.Holes, retry.Run{From: 2 * i, To: 2*i + 1})
	}
	require.Contains(t, m.String(), "open 40 [0 2 4")
	require.Contains(t, m.String(), "62 and 8 more]")
}

func TestRegressionKafkaStreamsMetadataIsUnderstood(t *testing.T) {
	b64 := func(b ...byte) string { return base64.StdEncoding.EncodeToString(b) }
	for _, c := range []struct {
		name, text string
		time       int64
	}{
		{"version 2, as Kafka Streams 3.x writes it", "AgAAAAAAAAPo", 1000},
		{"version 1", b64(1, 0, 0, 0, 0, 0, 0, 3, 0xe8), 1000},
		{"with metadata of processors", b64(2, 0, 0, 0, 0, 0, 0, 3, 0xe8, 0, 0, 0, 1, 0xff), 1000},
		{"no time yet", b64(2, 255, 255, 255, 255, 255, 255, 255, 255), -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := retry.ParseMetadata(c.text, 7, 7)
			require.NoError(t, err)
			want := retry.NewMetadata(7)
			want.StreamTime = c.time
			require.Equal(t, want, m)
			requireStartsAt(t, m, 7)
		})
	}
	clean := retry.NewMetadata(7)
	clean.StreamTime = 1000
	text, fits := clean.Encode(7)
	require.True(t, fits)
	require.Equal(t, "AgAAAAAAAAPo", text, "a clean end is in the form that Kafka Streams reads")
}

// requireStartsAt says that a restart takes every record from an offset on.
func requireStartsAt(t *testing.T, m retry.Metadata, offset int64) {
	w := retry.Restore(offset, m.Main, m.Holes)
	require.Equal(t, offset, w.Low())
	require.Equal(t, offset, w.Read())
	require.True(t, w.IsOpen(offset))
	w.Taken(offset)
	require.Equal(t, 1, w.InFlight())
}

func TestRegressionNoMetadataSkipsNothing(t *testing.T) {
	m, err := retry.ParseMetadata("", 5, 100)
	require.NoError(t, err)
	require.Equal(t, retry.NewMetadata(5), m)
	requireStartsAt(t, m, 5)
}

func TestRegressionUnreadableMetadataIsReprocessed(t *testing.T) {
	m := randomMap(1, 300, 0.3)
	ours, fits := m.Encode(0)
	require.True(t, fits)
	texts := map[string]string{
		"another program's": "hello", "base64 of another": "AwAAAAAAAAPo", "base64, too short": "AgAA",
		"a later version's": "!2abc", "no body": "!1", "no checksum": "!1AAA", "too long": strings.Repeat("A", retry.MaxMetadata+1),
		"cut": ours[:len(ours)-2], "longer": ours + "A", "not in the alphabet": ours[:9] + "'" + ours[10:], "not ASCII": "!1\xff\xfe",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			m, err := retry.ParseMetadata(text, 0, 300)
			var unreadable *retry.MetadataError
			require.ErrorAs(t, err, &unreadable)
			require.Equal(t, text, unreadable.Metadata)
			require.NotEmpty(t, unreadable.Reason)
			require.Equal(t, retry.NewMetadata(0), m)
			requireStartsAt(t, m, 0)
		})
	}
	for i := range ours {
		for _, by := range "!A~" {
			if byte(by) == ours[i] {
				continue
			}
			_, err := retry.ParseMetadata(ours[:i]+string(by)+ours[i+1:], 0, 300)
			require.Error(t, err, "character %d", i)
		}
	}
	_, err := retry.ParseMetadata(ours, 1, 300)
	require.Error(t, err, "of another offset")
}

func TestRegressionRunPastTheLogIsRefused(t *testing.T) {
	m := retry.NewMetadata(10 + math.MaxInt32)
	m.Holes = []retry.Run{{10, 10 + math.MaxInt32}}
	text, fits := m.Encode(10)
	require.True(t, fits)
	_, err := retry.ParseMetadata(text, 10, 10+math.MaxInt32)
	require.NoError(t, err)
	read, err := retry.ParseMetadata(text, 10, 1000)
	require.ErrorContains(t, err, "the log ends at 1000")
	require.Equal(t, retry.NewMetadata(10), read)
}

// Random acks widen the map until it does not fit any more: the window says so before, and a map that is cut loses no record.
func TestRegressionMapThatDoesNotFitIsNotDropped(t *testing.T) {
	const width = 60_000
	m := randomMap(3, width, 0.5)
	require.Greater(t, retry.Restore(0, width, m.Holes).MapBits(), int64(retry.MapRoom))
	_, fits := m.Encode(0)
	require.False(t, fits)

	text, again := m.Fit(0)
	read, err := retry.ParseMetadata(text, 0, width)
	require.NoError(t, err)
	require.Greater(t, read.Main, int64(16_000), "most of what has room is kept")
	require.Less(t, read.Main, int64(width))
	before, after := retry.Restore(0, width, m.Holes), retry.Restore(0, read.Main, read.Holes)
	repeated := int64(0)
	for offset := range int64(width) {
		if before.IsOpen(offset) {
			require.True(t, after.IsOpen(offset), "lost: %d", offset)
		} else if after.IsOpen(offset) {
			repeated++
		}
	}
	require.Equal(t, repeated, again)

	small := randomMap(3, 100, 0.5)
	whole, _ := small.Encode(0)
	text, again = small.Fit(0)
	require.Equal(t, whole, text, "what fits is not cut")
	require.Zero(t, again)
}

func TestMetadataOfAHalfReset(t *testing.T) {
	m, err := retry.ParseMetadata(retry.HalfReset, 7, -1)
	require.ErrorContains(t, err, "is not finished")
	require.Equal(t, retry.NewMetadata(7), m)
	require.True(t, retry.Ours(retry.HalfReset))
	running, ok := (&retry.Metadata{StreamTime: 9, Main: 7, Running: true, Suspect: -1}).Encode(7)
	require.True(t, ok)
	require.True(t, retry.Ours(running))
	ended, ok := (&retry.Metadata{StreamTime: 9, Main: 7, Suspect: -1}).Encode(7)
	require.True(t, ok)
	require.False(t, retry.Ours(ended), "Kafka Streams writes the same")
	require.False(t, retry.Ours(""))
}

// A commit of before the wait was said bounds it by the times that it has.
func TestHeadOfACommitWithoutItsWait(t *testing.T) {
	for text, head := range map[string]retry.Head{
		`!1CARt]Q_+QNMA`: {Attempt: 2, First: 5, Due: 12, Wait: 7},
		`!1CAQAJH66?;dB`: {Attempt: 2, First: 12, Due: 5},
	} {
		read, err := retry.ParseMetadata(text, 10, 20)
		require.NoError(t, err)
		require.Equal(t, &head, read.Head)
	}
}
