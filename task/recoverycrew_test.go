package task

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/retry"
)

func brokenYard(t testing.TB, options ...retry.Option) *yard {
	y := newYard(t, retry.Parallel(append([]retry.Option{retry.ThenDeadLetter()}, options...)...))
	breakOff(y.bed)
	y.crash()
	return y
}

// With workers a gap has a quarter of what is handed out while the main path has records, and else all but a quarter.
func TestRecoveryShareOfWorkers(t *testing.T) {
	y := brokenYard(t, retry.Workers(8)) // 16 items at a time
	y.step(Fetched{Input: ofGap, Batch: log(70, 120)})
	y.step(Fetched{Input: 0, Batch: log(120, 160)})
	y.work()
	shares := func() (gap, main int) {
		for _, it := range y.handed {
			if it.Record.Offset < 120 {
				require.Equal(t, GapPath, it.Path)
				gap++
			} else {
				require.Equal(t, MainPath, it.Path)
				main++
			}
		}
		return gap, main
	}
	for range 20 {
		gap, main := shares()
		require.Equal(t, []int{4, 12}, []int{gap, main})
		y.turn(rand.IntN(len(y.handed)))
	}
	for y.owner.t.in.next() >= 0 {
		y.turn(0)
	}
	for _, main := shares(); main > 0; _, main = shares() {
		for i, it := range y.handed {
			if it.Path == MainPath {
				y.turn(i)
				break
			}
		}
	}
	gap, _ := shares()
	require.Equal(t, 12, gap)
	y.feed(0, log(160, 170))
	gap, main := shares()
	require.Equal(t, []int{12, 4}, []int{gap, main}, "who comes then finds room")
	y.drain(true)
	y.commitNow()
	require.EqualValues(t, 170, y.low())
	require.EqualValues(t, 100, sumOfRows(y.bed))
}

// What runs at a crash is run again, by the second path; what is done is not.
func TestRecoveryOfWorkersRunsOnlyWhatIsOpen(t *testing.T) {
	y := brokenYard(t, retry.Workers(4))
	y.feed(ofGap, log(70, 80))
	y.feed(0, log(120, 124))
	y.runValue("70") // else the next start is one without progress
	y.runValue("72")
	y.runValue("121")
	y.commitNow()
	require.Equal(t, []retry.Run{{From: 71, To: 72}, {From: 73, To: 121}, {From: 122, To: 124}}, y.said().Holes, "it is one map")
	y.ends["in"] = 500
	y.crash()
	y.runs = nil
	y.feed(0, log(500, 501))
	for at := int64(71); at < 500; at += 10 {
		y.feed(ofGap, log(at, at+10))
		y.drain(at%20 == 0)
	}
	require.Equal(t, 1, y.ran["72"])
	require.Equal(t, 1, y.ran["121"])
	y.commitNow()
	require.EqualValues(t, 501, y.low())
	require.EqualValues(t, 431, sumOfRows(y.bed))
}

// A record of the gap that runs for too long becomes an entry, as one of the main path does, and the gap is closed without it.
func TestRecoveryEjectsWhatHoldsAGapUp(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)))
	breakOff(y.bed)
	const hi = 70 + mostKept + 100
	y.ends["in"] = hi
	y.crash()
	y.feed(ofGap, log(70, 71))
	stuck := y.handed[0]
	y.handed = nil
	for at := int64(71); at < hi; at += 1000 {
		y.step(Fetched{Input: ofGap, Batch: log(at, min(at+1000, hi))})
		y.work()
		y.drain(false)
	}
	require.EqualValues(t, 1, y.stats().Ejected)
	y.commitNow()
	require.EqualValues(t, hi, y.low())
	require.True(t, y.replayed[len(y.replayed)-1].Closed)
	require.Zero(t, y.owner.t.crew.replays)
	y.step(Done{y.workers[0].Run(context.Background(), y.now, stuck)})
	require.Zero(t, y.stats().Parked)
	y.commitNow()
	require.EqualValues(t, hi-70, sumOfRows(y.bed))
}

// pipe is a partition and what has become of its records, over all lives of the task. It has the task processed by two paths, and kills it.
type pipe struct {
	*yard
	t        *rapid.T
	end      int64
	fetched  [ofGap + 1]int64
	counts   map[string]int // tries of records that came back without an error
	crashes  int
	expected int64 // the first record of the main path, if there is one
}

// Whatever dies when, and is moved, slow, or out of order: every record is processed at least once, a commit never passes one that was not, and
// there is one gap.
func TestRecoveryAnyHistoryLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		workers := rapid.SampledFrom([]int{1, 1, 2, 5}).Draw(rt, "workers")
		options := []retry.Option{retry.Workers(workers), retry.ThenDeadLetter(), retry.Attempts(2), retry.NoBreaker(), retry.Crashes(1000)}
		if rapid.Bool().Draw(rt, "little room") {
			options = append(options, retry.Parked(2, 1<<20))
		}
		y := newYard(t, retry.Parallel(options...))
		y.cfg.Announce = true
		y.above, y.ends = 10, map[string]int64{}
		p := &pipe{yard: y, t: rt, end: int64(rapid.IntRange(1, 40).Draw(rt, "log"))}
		y.cfg.Workers = workers > 1
		for i := range 4 {
			y.fails[strconv.Itoa(rapid.IntRange(0, 200).Draw(rt, "bad"))] = i%2 + 1
		}
		p.restart()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			p.step()
		}
		p.finish()
	})
}

func (p *pipe) restart() {
	p.ends["in"] = p.end
	c := p.committed["in"]
	m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
	require.NoError(p.t, err)
	split, two := m.Split(c.Offset, p.end, p.above)
	p.crash()
	p.fetched = [ofGap + 1]int64{0: p.owner.t.in.all[0].position, ofGap: c.Offset}
	p.expected = -1
	if !two {
		require.Nil(p.t, p.owner.t.gaps)
		return
	}
	require.Equal(p.t, split.Main, p.fetched[0])
	if m.Running && p.end-m.Main > p.above {
		require.Equal(p.t, p.end, split.Main, "the main path goes on at the log's end")
	}
}

func (p *pipe) step() {
	switch rapid.IntRange(0, 9).Draw(p.t, "what") {
	case 0, 1:
		p.end += int64(rapid.IntRange(1, 40).Draw(p.t, "more"))
	case 2, 3:
		p.fetch(0)
	case 4, 5:
		p.fetch(ofGap)
	case 6:
		if n := len(p.handed); n > 0 {
			p.turn(rapid.IntRange(0, n-1).Draw(p.t, "item"))
		}
	case 7:
		p.check()
		p.commitNow()
		p.check()
	case 8:
		p.until(1)
	case 9:
		switch rapid.IntRange(0, 3).Draw(p.t, "end") {
		case 0:
			p.step1(Release{})
			p.restart()
		case 1, 2:
			p.crashes++
			p.restart()
		}
	}
}

func (p *pipe) step1(ev Event) {
	p.world.step(ev)
	p.check()
}

func (p *pipe) fetch(input int) {
	if input == ofGap && p.owner.t.gap(0) == nil {
		return
	}
	from := p.fetched[input]
	to := min(p.end, from+int64(rapid.IntRange(1, 30).Draw(p.t, "fetched")))
	if to <= from {
		return
	}
	p.fetched[input] = to
	p.feed(input, log(from, to))
}

// check holds a commit against what was done: each record below it, and each that it says is done, has been processed.
func (p *pipe) check() {
	c := p.committed["in"]
	m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
	require.NoError(p.t, err)
	open := map[int64]bool{}
	for _, h := range m.Holes {
		for o := h.From; o < h.To; o++ {
			open[o] = true
		}
	}
	main := c.Offset
	if len(m.Holes) > 0 {
		main = m.Main
	}
	for o := range main {
		require.True(p.t, open[o] || p.ran[strconv.FormatInt(o, 10)] > 0, "offset %d is said to be done (committed %d, %v)", o, c.Offset, m)
	}
}

func (p *pipe) finish() {
	p.end += 3
	for range 1000 {
		p.fetched[0] = max(p.fetched[0], p.owner.t.in.all[0].end)
		p.rest(0)
		p.rest(ofGap)
		p.drain(false)
		p.until(1)
		p.drain(false)
		p.commitNow()
		if p.low() == p.end && p.stats().Parked == 0 {
			break
		}
	}
	require.Equal(p.t, p.end, p.low(), "the task has come to its end: %+v", p.owner.Stats())
	require.NoError(p.t, p.failed)
	for o := range p.end {
		require.Positive(p.t, p.ran[fmt.Sprint(o)], "offset %d", o)
	}
	counted := sumOfRows(p.bed)
	require.GreaterOrEqual(p.t, counted+int64(p.letters()), p.end, "what was processed is in the store")
}

func (p *pipe) rest(input int) {
	if input == ofGap && p.owner.t.gap(0) == nil || p.fetched[input] >= p.end {
		return
	}
	p.feed(input, log(p.fetched[input], p.end))
	p.fetched[input] = p.end
}

// The map that a crash leaves may be nearly as large as a commit can say: both paths go on all the same, and the map becomes smaller.
func TestRecoveryOfAMapThatIsNearlyFull(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4), retry.ThenDeadLetter()))
	breakOff(y.bed)
	const main = 70 + 22_000
	m := retry.Metadata{StreamTime: 5069, Main: main, Running: true, Suspect: -1}
	for o := int64(70); o < main; o += 2 {
		m.Holes = append(m.Holes, retry.Run{From: o, To: o + 1})
	}
	text, ok := m.Encode(70)
	require.True(t, ok)
	y.committed["in"] = InputOffset{TopicPartition: TopicPartition{"in", 1}, Offset: 70, Metadata: text}
	const hi = main + 100
	y.ends["in"] = hi
	y.crash()
	require.Greater(t, y.owner.t.gap(0).window.MapBits(), int64(mostMapBits))
	y.feed(0, log(hi, hi+3))
	y.drain(false)
	require.Equal(t, 1, y.ran[strconv.Itoa(hi)], "what is new does not wait for the map to become smaller")
	for at := int64(70); at < hi; at += 1000 {
		y.feed(ofGap, log(at, min(at+1000, hi)))
		y.drain(false)
	}
	y.commitNow()
	require.EqualValues(t, hi+3, y.low())
	require.EqualValues(t, 11_000+100+3, sumOfRows(y.bed))
}

// Nor do a gap and what was put aside fill together what may be handed out.
func TestGapAndRetriesLeaveRoomTogether(t *testing.T) {
	for most, all := range map[int]int{4: 3, 8: 6, 16: 12} {
		c := &crew{most: most, ahead: 100}
		for c.takesReplay(false) || c.roomForRetry(true) {
			if c.roomForRetry(true) {
				c.retries++
			} else {
				c.replays++
				c.taken++
			}
			c.running++
		}
		require.Equal(t, all, c.running, "of %d", most)
		require.Equal(t, most/4, c.retries)
		require.True(t, c.takes(), "who comes then finds room")
	}
}
