package task

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

const ofGap = 2 // the input number of the gap of "in": a bed has two inputs

// broken is a bed whose process died at offset 70 of a log that ends at 120, and is started again.
func broken(t testing.TB, options ...retry.Option) *bed {
	b := newBed(t, retry.Parallel(append([]retry.Option{retry.ThenDeadLetter()}, options...)...))
	breakOff(b)
	b.crash()
	return b
}

func breakOff(b *bed) {
	b.cfg.Announce = true
	b.above, b.ends = 10, map[string]int64{"in": 120}
	m := retry.Metadata{StreamTime: 5069, Main: 70, Running: true, Suspect: -1}
	text, ok := m.Encode(70)
	require.True(b.t, ok)
	b.committed["in"] = InputOffset{TopicPartition: TopicPartition{"in", 1}, Offset: 70, Metadata: text}
}

// log is what the partition has from one offset to another; the value of a record is its offset.
func log(from, to int64) *Batch {
	var rs []Record
	for o := from; o < to; o++ {
		rs = append(rs, rec(o, fmt.Sprintf("k%d", o%5), strconv.FormatInt(o, 10), 5000+o))
	}
	return batch(to, rs...)
}

// processed are the runs of offsets that were processed, in their order.
func (f *flaky) processed() (s string) {
	var runs []retry.Run
	for _, v := range f.runs {
		o, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			panic(err)
		}
		if n := len(runs); n > 0 && runs[n-1].To == o {
			runs[n-1].To++
			continue
		}
		runs = append(runs, retry.Run{From: o, To: o + 1})
	}
	for i, r := range runs {
		if i > 0 {
			s += " "
		}
		s += r.String()
	}
	return s
}

// Committed is 70, the log ends at 120: step by step.
func TestRecoveryOf70And120(t *testing.T) {
	b := newBed(t, retry.Parallel(retry.ThenDeadLetter()))
	breakOff(b)
	b.holdCommits = true
	b.crash()

	// What is to come is committed before anything is processed.
	b.feed(0, log(120, 123))
	b.feed(ofGap, log(70, 75))
	require.Empty(t, b.runs, "nothing is processed before the commit that says so")
	require.Len(t, b.seals, 1)
	in := b.seals[0].Offsets[0]
	require.EqualValues(t, 70, in.Offset)
	m, err := retry.ParseMetadata(in.Metadata, 70, 120)
	require.NoError(t, err)
	require.Equal(t, retry.Metadata{StreamTime: 5069, Main: 120, Holes: []retry.Run{{From: 70, To: 120}}, Running: true, Starts: 1, Suspect: -1}, m)

	// The main path comes first, and has the stream time for itself.
	b.holdCommits = false
	b.commit(nil)
	b.work()
	require.Equal(t, "120-122 70-74", b.processed())
	require.EqualValues(t, 5122, b.owner.t.streamTime)
	require.Equal(t, []Replay{{Lo: 70, Hi: 120, Position: 75, Left: 45}}, b.replayed)

	// A commit stands at the first open offset, and says where the main path is.
	b.commitNow()
	require.EqualValues(t, 75, b.committed["in"].Offset)
	require.Equal(t, retry.Metadata{StreamTime: 5122, Main: 123, Holes: []retry.Run{{From: 75, To: 120}}, Running: true, Suspect: -1}, b.said())

	// Where both have records, one of four is the gap's.
	b.step(Fetched{Input: ofGap, Batch: log(75, 78)})
	b.feed(0, log(123, 132))
	require.Equal(t, "120-122 70-74 123-125 75 126-128 76 129-131 77", b.processed())

	// What a broker gives from 120 on belongs to the main path.
	b.feed(ofGap, log(78, 125))
	require.Equal(t, "120-122 70-74 123-125 75 126-128 76 129-131 77-119", b.processed())
	require.Equal(t, Replay{Lo: 70, Hi: 120, Position: 120, Closed: true}, b.replayed[len(b.replayed)-1])
	b.commitNow()
	require.EqualValues(t, 132, b.committed["in"].Offset)
	require.Equal(t, retry.Metadata{StreamTime: 5131, Main: 132, Running: true, Suspect: -1}, b.said())
	require.Equal(t, int64(62), sumOfRows(b))
	require.Equal(t, b.consumed[0], batchBytes(120, 123)+batchBytes(123, 132))
	require.Equal(t, b.consumed[ofGap], batchBytes(70, 75)+batchBytes(75, 78)+batchBytes(78, 125))

	// The end is clean: nothing of it is left in what the group knows.
	b.step(Release{})
	require.Equal(t, retry.Metadata{StreamTime: 5131, Main: 132, Suspect: -1}, b.said())
}

func batchBytes(from, to int64) int { return log(from, to).Bytes }

// sumOfRows is how many records are counted, as committed.
func sumOfRows(b *bed) (sum int64) {
	for _, row := range b.rows(0) {
		var n, ts int64
		_, err := fmt.Sscanf(row, "%d@%d", &n, &ts)
		require.NoError(b.t, err)
		sum += n
	}
	return sum
}

// A process that dies in the middle of a replay begins where it was; the rest of the log becomes part of the same gap.
func TestRecoveryAfterTheNextCrash(t *testing.T) {
	b := broken(t)
	b.feed(ofGap, log(70, 90))
	b.feed(0, log(120, 130))
	b.commitNow()
	b.feed(ofGap, log(90, 100)) // never committed
	b.ends["in"] = 300
	b.crash()
	require.Equal(t, retry.Metadata{StreamTime: 5129, Main: 300, Holes: []retry.Run{{From: 90, To: 120}, {From: 130, To: 300}}, Running: true, Starts: 1, Suspect: -1}, b.said())
	b.runs = nil
	b.feed(0, log(300, 301))
	b.feed(ofGap, log(90, 300))
	require.Equal(t, "300 90-119 130-299", b.processed())
	b.commitNow()
	require.EqualValues(t, 301, b.committed["in"].Offset)
	require.EqualValues(t, 231, sumOfRows(b))
}

// A clean end leaves the gap to whoever has the task next, who goes on with both paths where they were, however close the end of the log is.
func TestRecoveryGoesOnElsewhere(t *testing.T) {
	b := broken(t)
	b.feed(ofGap, log(70, 80))
	b.feed(0, log(120, 130))
	b.step(Release{})
	require.Equal(t, StateReleased, b.owner.State())
	require.Equal(t, retry.Metadata{StreamTime: 5129, Main: 130, Holes: []retry.Run{{From: 80, To: 120}}, Suspect: -1}, b.said())
	b.ends["in"] = 131
	b.crash() // nothing comes after the release
	b.runs = nil
	b.feed(0, log(130, 131))
	b.feed(ofGap, log(80, 131))
	require.Equal(t, "130 80-119", b.processed())
}

// Without the option, and without the policy that it needs, whoever finds an open gap closes it on the way: nothing is left out.
func TestRecoveryIsTurnedOff(t *testing.T) {
	b := broken(t)
	b.feed(ofGap, log(70, 80))
	b.feed(0, log(120, 130))
	b.commitNow()
	b.above = 0
	b.crash()
	b.runs = nil
	b.feed(0, log(80, 131))
	require.Equal(t, "80-119 130", b.processed())
	b.commitNow()
	require.EqualValues(t, 131, b.committed["in"].Offset)
}

// Records of a gap that fail are put aside as those of the main path, and done with that; the stream time that they are judged by is the gap's.
func TestRecoveryOfRecordsThatFail(t *testing.T) {
	b := broken(t, retry.Attempts(2), retry.Backoff(time.Second, time.Second), retry.Jitter(0))
	b.fails["72"], b.fails["74"], b.fails["121"] = 1, -1, 1
	b.feed(ofGap, log(70, 120))
	b.feed(0, log(120, 123))
	require.EqualValues(t, 3, b.stats().PutAside)
	item, _ := b.owner.t.failure.pool.index.Find(retry.Origin{Topic: "in", Partition: 1, Offset: 72})
	require.EqualValues(t, 5072, item.Stream)
	b.commitNow()
	require.EqualValues(t, 123, b.committed["in"].Offset)
	b.until(4)
	require.Equal(t, 1, b.letters())
	require.EqualValues(t, 2, b.stats().Recovered)
	require.EqualValues(t, 5122, b.owner.t.streamTime)
}

// Entries of records in the gap sleep until the second path comes to them; the main path, which is far beyond, does not wake them.
func TestRecoveryFindsWhatWasPutAside(t *testing.T) {
	b := broken(t, retry.Backoff(time.Hour, time.Hour))
	b.fails["72"], b.fails["75"] = 1, 1
	b.feed(ofGap, log(70, 74))
	b.step(Commit{})
	b.holdCommits = true
	b.feed(ofGap, log(74, 76))
	b.step(Commit{})
	require.Len(t, b.seals, 1)
	for _, s := range b.seals[0].Stores { // the rows are in the changelog, the offset is not committed
		b.apply(&Sealed{Stores: []SealedStore{s}})
	}
	b.holdCommits = false
	b.ends["in"] = 121
	b.crash()
	p := b.owner.t.failure.pool
	require.Equal(t, 2, p.index.Len())
	require.Equal(t, 1, p.index.Inert())
	b.feed(0, log(120, 125))
	b.commitNow()
	require.Equal(t, 1, p.index.Inert(), "the second path has not come to it")
	b.runs = nil
	b.feed(ofGap, log(74, 120))
	require.Zero(t, p.index.Inert())
	require.Equal(t, "74 76-119", b.processed())
	b.commitNow()
	require.EqualValues(t, 125, b.committed["in"].Offset)
}

// Retention takes a part of the gap away before it is replayed: exactly what was open there is lost, and said to be.
func TestRecoveryIsOvertakenByRetention(t *testing.T) {
	b := broken(t)
	b.feed(ofGap, log(70, 75))
	b.step(Fetched{Input: ofGap, Batch: log(75, 78)}) // is here, whatever becomes of the log
	b.step(Trimmed{Input: 0, First: 100})
	b.work()
	b.feed(ofGap, log(100, 120))
	require.Equal(t, "70-77 100-119", b.processed())
	last := b.replayed[len(b.replayed)-1]
	require.Equal(t, Replay{Lo: 70, Hi: 120, Position: 120, Lost: []retry.Run{{From: 78, To: 100}}, Closed: true}, last)
	require.EqualValues(t, 22, b.owner.Stats().Lost)
	b.commitNow()
	require.EqualValues(t, 120, b.committed["in"].Offset)
}

// All that is left of a gap is gone.
func TestRecoveryLosesTheRest(t *testing.T) {
	b := broken(t)
	b.feed(0, log(120, 122))
	b.feed(ofGap, log(70, 75))
	b.step(Trimmed{Input: 0, First: 130})
	require.Equal(t, Replay{Lo: 70, Hi: 120, Position: 120, Lost: []retry.Run{{From: 75, To: 120}}, Closed: true}, b.replayed[len(b.replayed)-1])
	b.step(Trimmed{Input: 0, First: 140}) // of an answer that came twice
	b.commitNow()
	require.EqualValues(t, 122, b.committed["in"].Offset)
}

// Compaction and markers leave offsets without a record.
func TestRecoveryOfALogWithHoles(t *testing.T) {
	b := broken(t)
	b.feed(ofGap, batch(90, rec(73, "a", "73", 5073), rec(80, "a", "80", 5080)))
	b.commitNow()
	require.EqualValues(t, 90, b.committed["in"].Offset)
	b.feed(ofGap, batch(121))
	b.commitNow()
	require.EqualValues(t, 120, b.committed["in"].Offset)
	require.Equal(t, "73 80", b.processed())
}

// A record of which two starts have come to nothing is looked for one by one: there is no second path then.
func TestRecoveryIsNotBegunWhileARecordIsSuspected(t *testing.T) {
	b := broken(t)
	b.crash()
	require.Nil(t, b.owner.t.gaps)
	b.feed(0, log(70, 130))
	require.Equal(t, "70-129", b.processed())
}

func TestRecoveryExplained(t *testing.T) {
	b := broken(t, retry.Parked(1, 1<<20), retry.Backoff(time.Hour, time.Hour), retry.Jitter(0), retry.NoBreaker())
	b.feed(ofGap, log(70, 75))
	b.feed(0, log(120, 122))
	state := func(offset int64) RecordState { return b.owner.Explain(0, offset).State }
	require.Equal(t, RecordDone, state(74))
	b.commitNow()
	require.Equal(t, RecordCommitted, state(74))
	require.Equal(t, RecordGap, state(75))
	require.Equal(t, RecordGap, state(119))
	require.Equal(t, RecordDone, state(121))
	require.Equal(t, RecordAhead, state(122))
	b.fails["75"], b.fails["76"] = -1, -1
	b.feed(ofGap, log(75, 80))
	require.Equal(t, RecordParked, state(75))
	e := b.owner.Explain(0, 76)
	require.Equal(t, RecordHead, e.State)
	require.Equal(t, 1, e.Attempt)
	require.Equal(t, RecordGap, state(77))
}

// A gap of which nothing is open any more is closed, however much of it has not been read again: until then a commit stood before what the main
// path had done, without a hole, as if a record there were suspected.
func TestRecoveryEndsWithTheLastOpenRecord(t *testing.T) {
	b := newBed(t, retry.Parallel(retry.ThenDeadLetter()))
	breakOff(b)
	m := retry.Metadata{StreamTime: 5069, Main: 120, Holes: []retry.Run{{From: 70, To: 75}}, Suspect: -1}
	text, ok := m.Encode(70)
	require.True(t, ok)
	b.committed["in"] = InputOffset{TopicPartition: TopicPartition{"in", 1}, Offset: 70, Metadata: text}
	b.crash()
	b.feed(ofGap, log(70, 80))
	b.feed(0, log(120, 125))
	require.Equal(t, "70-74 120-124", b.processed())
	require.Equal(t, Replay{Lo: 70, Hi: 120, Position: 120, Closed: true}, b.replayed[len(b.replayed)-1])
	b.commitNow()
	require.EqualValues(t, 125, b.committed["in"].Offset)
	require.Equal(t, retry.Metadata{StreamTime: 5124, Main: 125, Running: true, Suspect: -1}, b.said())
	require.Equal(t, batchBytes(70, 80), b.consumed[ofGap], "all that came is given back")
	b.feed(ofGap, log(80, 90)) // was on the way
	require.Equal(t, "70-74 120-124", b.processed())
	require.Equal(t, batchBytes(70, 80)+batchBytes(80, 90), b.consumed[ofGap])
}
