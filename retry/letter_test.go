package retry

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testLetter() Letter {
	return Letter{
		Origin: Origin{Topic: "orders", Partition: 3, Offset: 42}, Exception: "*fs.PathError", Message: "no such file", Stack: "main.go:7",
		Attempts: 10, First: 1_700_000_000_000, Class: "*fs.PathError", Node: "geo", Task: "0_3", Redriven: 1,
		Root: Origin{Topic: "raw", Partition: 1, Offset: 7},
	}
}

func names(headers []Header) (s []string) {
	for _, h := range headers {
		s = append(s, h.Key+"="+string(h.Value))
	}
	return s
}

// apache/kafka PR #21378: the header of the exception held its message, and the record's own headers were lost.
func TestRegressionDeadLetterSaysTheTypeAndKeepsTheOriginalHeaders(t *testing.T) {
	err := fmt.Errorf("geo: %w", &fs.PathError{Op: "open", Path: "x", Err: errors.New("gone")})
	l := testLetter()
	l.Exception, l.Message = Class("process", err), err.Error()
	original := []Header{{Key: "trace", Value: []byte("1")}, {Key: "null"}, {Key: "trace", Value: []byte{}}}
	headers := l.AppendHeaders(nil, original)
	require.Equal(t, original, headers[:3], "first, and as they were")
	require.Equal(t, []string{
		"__streams.errors.exception=*errors.errorString", "__streams.errors.message=geo: open x: gone", "__streams.errors.stacktrace=main.go:7",
		"__streams.errors.topic=orders", "__streams.errors.partition=3", "__streams.errors.offset=42",
		"__understudy.errors.attempts=10", "__understudy.errors.first=1700000000000", "__understudy.errors.redriven=1",
		"__understudy.errors.class=*fs.PathError", "__understudy.errors.node=geo", "__understudy.errors.task=0_3",
		"__understudy.errors.root=raw/1/7",
	}, names(headers[3:]))
}

func drawHeaders(t *rapid.T) (hs []Header) {
	own := []string{"a", "b", HeaderTopic, HeaderRedriven, HeaderStack, HeaderPartition, HeaderRow, "__understudy.time"}
	for range rapid.IntRange(0, 6).Draw(t, "headers") {
		h := Header{Key: rapid.SampledFrom(own).Draw(t, "name")}
		if rapid.Bool().Draw(t, "has value") {
			h.Value = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "value")...)
		}
		hs = append(hs, h)
	}
	return hs
}

func TestALetterIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, -1, maxName)
		l := Letter{
			Origin: drawOrigin(t, "origin"), Exception: text.Draw(t, "exception"), Message: text.Draw(t, "message"), Stack: text.Draw(t, "stack"),
			Attempts: rapid.IntRange(0, maxCount).Draw(t, "attempts"), First: rapid.Int64Range(0, maxTime).Draw(t, "first"),
			Class: text.Draw(t, "class"), Node: text.Draw(t, "node"), Task: text.Draw(t, "task"),
			Redriven: rapid.IntRange(0, maxCount).Draw(t, "redriven"),
		}
		if rapid.Bool().Draw(t, "has root") {
			l.Root = drawOrigin(t, "root")
		}
		original := drawHeaders(t)
		got, left, ok := ParseLetter(l.AppendHeaders(nil, original))
		require.True(t, ok)
		require.Equal(t, l, got)
		require.Equal(t, original, left, "also those that are named like a letter's")
	})
}

// spring-kafka #4576 (CVE-2026-59317): a forged header blocked the partition.
func TestRegressionForgedHeadersAreClamped(t *testing.T) {
	l := testLetter()
	forge := func(name, value string) (Letter, []Header, bool) {
		return ParseLetter(append(l.AppendHeaders(nil, nil), Header{Key: name, Value: []byte(value)}))
	}
	huge := strings.Repeat("9", 400)
	for _, bad := range []string{"", "-1", huge[:20] + "x", "1e9", "0x10", " 1", "\x00\x00\x00\x01", "١"} {
		for name, number := range map[string]func(Letter) int64{
			HeaderAttempts: func(l Letter) int64 { return int64(l.Attempts) },
			HeaderFirst:    func(l Letter) int64 { return l.First },
		} {
			got, _, ok := forge(name, bad)
			require.True(t, ok)
			require.Zero(t, number(got), "%s %q", name, bad)
		}
		got, _, _ := forge(HeaderRedriven, bad)
		require.Equal(t, MaxRedrives, got.Redriven, bad)
		for _, name := range []string{HeaderPartition, HeaderOffset} {
			_, original, ok := forge(name, bad)
			require.False(t, ok, "%s %q", name, bad)
			require.Len(t, original, 14)
		}
	}
	for _, large := range []string{huge[:20], huge[:19], huge[:250], huge} {
		got, _, ok := forge(HeaderAttempts, large)
		require.True(t, ok)
		require.Equal(t, maxCount, got.Attempts)
		got, _, _ = forge(HeaderFirst, large)
		require.EqualValues(t, maxTime, got.First)
		got, _, _ = forge(HeaderRedriven, large)
		require.Equal(t, maxCount, got.Redriven)
		got, _, ok = forge(HeaderPartition, large)
		require.True(t, ok)
		require.EqualValues(t, math.MaxInt32, got.Partition)
		got, _, ok = forge(HeaderOffset, large)
		require.True(t, ok)
		require.EqualValues(t, math.MaxInt64, got.Offset)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "a b", strings.Repeat("a", 250), huge + "/1/1", "ä"} {
		_, _, ok := forge(HeaderTopic, bad)
		require.False(t, ok, bad)
		got, _, ok := forge(HeaderRoot, bad+"/1/1")
		require.True(t, ok)
		require.Zero(t, got.Root)
	}
	for _, bad := range []string{"a", "a/1", "a/1/", "a//1", "a/-1/1", "a/1/1/1"} {
		got, _, _ := forge(HeaderRoot, bad)
		require.Zero(t, got.Root, bad)
	}
	got, _, ok := forge(HeaderMessage, strings.Repeat("x", 1<<20))
	require.True(t, ok)
	require.Len(t, got.Message, MaxText)
	require.Empty(t, got.Stack)
	got, _, _ = forge(HeaderClass, strings.Repeat("ö", 1<<20))
	require.Equal(t, strings.Repeat("ö", maxName/2), got.Class)
}

func TestARecordThatIsNoLetter(t *testing.T) {
	for _, headers := range [][]Header{nil, {{Key: "a"}}, {{Key: HeaderTopic, Value: []byte("t")}, {Key: HeaderOffset, Value: []byte("1")}}} {
		l, original, ok := ParseLetter(headers)
		require.False(t, ok)
		require.Zero(t, l)
		require.Equal(t, headers, original)
		_, err := Redrive(headers)
		require.ErrorIs(t, err, ErrNoLetter)
	}
}

// spring-kafka #1994, #2551, #2335: each round added headers, until the record was too large.
func TestRegressionHeadersAreBoundedOver200Retries(t *testing.T) {
	original := []Header{{Key: "trace", Value: []byte("1")}, {Key: HeaderTopic, Value: []byte("of a Java application")}}
	l := testLetter()
	l.Message, l.Stack, l.Redriven = strings.Repeat("m", 9999), strings.Repeat("s", 9999), 0
	left := original
	var first []Header
	for round := range 200 {
		headers := l.AppendHeaders(nil, left)
		if first == nil {
			first = headers
		}
		require.Len(t, headers, len(first), round)
		require.LessOrEqual(t, size(headers), size(original)+8<<10)
		redriven, err := Redrive(headers)
		require.NoError(t, err)
		var ok bool
		_, left, ok = ParseLetter(redriven)
		require.True(t, ok)
		require.Equal(t, original, left)
	}

	x := NewIndex(ModeParallel)
	e := testEntry(1, "k", 1)
	p := &Payload{Value: []byte("v"), Headers: original}
	payload := AppendPayload(nil, e.Origin, p)
	it := x.Park(e)
	for range 200 {
		x.Start(it)
		it.Attempt++
		it.Message = strings.Repeat("m", 9999)
		it.Due = 1 << 50
		row := AppendEntry(nil, &it.Entry)
		require.LessOrEqual(t, len(row), MaxText+128)
		x.Again(it)
		require.Empty(t, it.Message)
	}
	got, err := DecodePayload(e.Origin, payload)
	require.NoError(t, err)
	require.Equal(t, original, got.Headers, "a payload is written once")
}

func size(headers []Header) (n int) {
	for _, h := range headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func TestALetterComesBackFiveTimes(t *testing.T) {
	l := testLetter()
	l.Redriven = 0
	headers := l.AppendHeaders(nil, []Header{{Key: "a"}})
	for n := range MaxRedrives {
		redriven, err := Redrive(headers)
		require.NoError(t, err)
		got, original, ok := ParseLetter(redriven)
		require.True(t, ok)
		require.Equal(t, n+1, got.Redriven)
		require.Equal(t, []Header{{Key: "a"}}, original)
		headers = got.AppendHeaders(nil, original) // it fails again
	}
	_, err := Redrive(headers)
	require.ErrorIs(t, err, ErrRedriven)

	java := l.AppendHeaders(nil, nil)[:6]
	redriven, err := Redrive(java)
	require.NoError(t, err)
	require.Len(t, java, 6)
	got, _, _ := ParseLetter(redriven)
	require.Equal(t, 1, got.Redriven)
}

// A row that belongs to no record is a dead letter like others, which says whose it is. It does not come back, and neither does what is left of a record
// that could not be read.
func TestLettersThatHoldNoRecord(t *testing.T) {
	row := Letter{Origin: noOrigin, Exception: "e", Message: "m", Attempts: 3, First: 5, Class: ClassRow, Node: "count-c", Row: "c"}
	headers := row.AppendHeaders(nil, []Header{{Key: "a"}})
	got, original, ok := ParseLetter(headers)
	require.True(t, ok)
	require.Equal(t, row, got)
	require.Equal(t, []Header{{Key: "a"}}, original)
	_, err := Redrive(headers)
	require.ErrorIs(t, err, ErrNoRecord)
	got, _, ok = ParseLetter(append(headers, Header{Key: HeaderTopic, Value: []byte("in")}, Header{Key: HeaderPartition, Value: []byte("0")}, Header{Key: HeaderOffset, Value: []byte("1")}))
	require.True(t, ok)
	require.Equal(t, noOrigin, got.Origin, "whatever else is said")

	envelope := testLetter()
	envelope.Class = ClassEnvelope
	_, err = Redrive(envelope.AppendHeaders(nil, nil))
	require.ErrorIs(t, err, ErrNoRecord)
}

// A record may have headers of these names before it is a dead letter: what the letter does not say is not theirs to say.
func TestRegressionForgedHeadersAreNotTheLetters(t *testing.T) {
	forged := []Header{
		{Key: HeaderRoot, Value: []byte("forged/3/7")}, {Key: HeaderNode, Value: []byte("forged")}, {Key: HeaderClass, Value: []byte("forged")},
		{Key: HeaderTask, Value: []byte("9_9")}, {Key: HeaderRow, Value: []byte("forged")},
	}
	l := Letter{Origin: Origin{Topic: "in", Partition: 1, Offset: 2}, Exception: "e", Attempts: 1}
	got, original, ok := ParseLetter(l.AppendHeaders(nil, forged))
	require.True(t, ok)
	require.Equal(t, l, got)
	require.Equal(t, forged, original)
	l.Root = Origin{Topic: strings.Repeat("r", 249), Partition: 1<<31 - 1, Offset: 1<<63 - 1}
	got, _, _ = ParseLetter(l.AppendHeaders(nil, forged))
	require.Equal(t, l, got, "the longest root there is")
}
