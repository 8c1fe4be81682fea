package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheBookIsCountedAsAPlainLoopDoes(t *testing.T) {
	var out bytes.Buffer
	book := lines(1)
	want := countAll(book)
	require.NoError(t, run(t.Context(), &kit.Flags{App: "wordcount"}, book, &screen{out: &out}))
	require.True(t, strings.HasPrefix(out.String(), fmt.Sprintf("  0 %%  0 of %d words", sum(want))), "the bar begins at nothing")
	require.Contains(t, out.String(), fmt.Sprintf("100 %%  %d of %d words  the %d,", sum(want), sum(want), want["the"]))
	require.Contains(t, out.String(), fmt.Sprintf("All %d words agree", len(want)))
}

func TestTheBookHasManyWords(t *testing.T) {
	want := countAll(lines(1))
	require.Greater(t, len(want), 4000)
	require.Equal(t, "the", top(want, 1)[0].word)
	require.Equal(t, 3*sum(want), sum(countAll(lines(3))))
}

func TestAnInterruptedCountEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &firstWrite{then: cancel}
	book := lines(1)
	_, err := count(ctx, &kit.Flags{App: "wordcount"}, book, &screen{out: out}, sum(countAll(book))+1) // never done
	require.ErrorIs(t, err, context.Canceled)
	require.NotEmpty(t, out.String())
}

// firstWrite does something at the first write.
type firstWrite struct {
	bytes.Buffer
	then func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.then()
	return w.Buffer.Write(b)
}

// driven runs lines through the topology and returns the last count of each word.
func driven(t *testing.T, lines ...string) map[string]int64 {
	d := streamstest.New(t, topology("counts"))
	in := streamstest.In(d, "lines", serde.String, serde.String)
	for _, line := range lines {
		in.Pipe("", line)
	}
	got := map[string]int64{}
	for _, r := range streamstest.Out(d, "counts", serde.String, serde.Int64).ReadAll() {
		got[r.Key] = r.Value
	}
	return got
}

func TestWordsEndAtWhatIsNoLetter(t *testing.T) {
	cases := []struct {
		name  string
		lines []string
		want  map[string]int64
	}{
		{name: "carriage returns", lines: []string{"one two\r", "two\r"}, want: map[string]int64{"one": 1, "two": 2}},
		{name: "a line with its end", lines: []string{"one two\r\n", "two\n"}, want: map[string]int64{"one": 1, "two": 2}},
		{name: "a byte order mark", lines: []string{"\ufeffone two", "one"}, want: map[string]int64{"one": 2, "two": 1}},
		{name: "capitals and points", lines: []string{"Light, LIGHT; light."}, want: map[string]int64{"light": 3}},
		{name: "other letters", lines: []string{"Été ÉTÉ"}, want: map[string]int64{"été": 2}},
		{name: "nothing", lines: []string{"", " 1704 "}, want: map[string]int64{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, driven(t, c.lines...))
			require.Equal(t, c.want, countAll(c.lines))
		})
	}
}

func TestReportFailsOnADifference(t *testing.T) {
	var out bytes.Buffer
	want := map[string]int64{"a": 2, "b": 1}
	require.ErrorContains(t, report(&out, map[string]int64{"a": 2}, want), "differ")
	require.Contains(t, out.String(), "  2. b             0   (a plain loop: 1)\n")
	require.NotContains(t, out.String(), "agree")
}

func TestTallyKeepsTheNewestCount(t *testing.T) {
	c := newTally()
	for _, n := range []uint64{1, 5} {
		c.take(kit.Record{Key: []byte("a"), Value: binary.BigEndian.AppendUint64(nil, n)})
	}
	c.take(kit.Record{Key: []byte("b"), Value: binary.BigEndian.AppendUint64(nil, 2)})
	require.Equal(t, int64(7), c.sum())
	require.Equal(t, []wordCount{{"a", 5}}, c.top(1))
}

func TestTopIsInAlphabeticalOrderWithinACount(t *testing.T) {
	require.Equal(t, []wordCount{{"c", 9}, {"a", 2}, {"b", 2}}, top(map[string]int64{"b": 2, "c": 9, "a": 2, "d": 1}, 3))
	require.Empty(t, top(nil, 3))
}

func TestPlainScreenPrintsALineASecondAndTheLast(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	start := time.Unix(1000, 0)
	the := []wordCount{{"the", 3}, {"of", 2}, {"a", 1}, {"to", 1}}
	s.show(start, 0, 4, nil)
	s.show(start.Add(900*time.Millisecond), 1, 4, the) // too early
	s.show(start.Add(1100*time.Millisecond), 2, 4, the)
	s.show(start.Add(1200*time.Millisecond), 4, 4, the) // the end is always said
	require.Equal(t, "  0 %  0 of 4 words  \n 50 %  2 of 4 words  the 3, of 2, a 1\n100 %  4 of 4 words  the 3, of 2, a 1\n", out.String())
}

func TestLiveScreenIsDrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, live: true}
	now := time.Unix(1000, 0)
	s.show(now, 1, 4, []wordCount{{"the", 1}})
	first := out.String()
	require.Equal(t, "\r\x1b[K["+strings.Repeat("=", 10)+strings.Repeat(" ", 30)+"]  25 %  1 of 4 words\n\x1b[K       1  the\n"+strings.Repeat("\x1b[K\n", 9), first)
	out.Reset()
	s.show(now, 4, 4, []wordCount{{"the", 4}})
	require.True(t, strings.HasPrefix(out.String(), "\x1b[11A\r"), "it goes up over what it has drawn: %q", out.String())
	require.Contains(t, out.String(), "["+strings.Repeat("=", 40)+"] 100 %")
}

func TestNothingToCountIsNoDivisionByZero(t *testing.T) {
	var out bytes.Buffer
	(&screen{out: &out, live: true}).show(time.Unix(1000, 0), 0, 0, nil)
	require.Contains(t, out.String(), "  0 %")
}

func TestTopologyIsWhatTheReadmeSays(t *testing.T) {
	built, err := topology("wordcount-counts").Build("wordcount")
	require.NoError(t, err)
	var names []string
	for _, topic := range built.Internal {
		names = append(names, topic.Name)
	}
	require.Equal(t, []string{"wordcount-word-counts-changelog", "wordcount-word-counts-repartition"}, names)
	require.Equal(t, streams.ChangelogTopic, built.Internal[0].Kind)
}
