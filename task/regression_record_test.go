package task

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// What others have let through, forgotten or starved when a record failed.

// spring-projects/spring-kafka #2934, #3072: what a handler had sent before it failed was visible, and its record was not there to be tried again.
func TestRegressionOutputOfAFailedTryIsNotSeenAndItsRetryIs(t *testing.T) {
	for _, p := range []retry.Policy{retry.KeyOrdered(steady), retry.Parallel(steady)} {
		b := newBed(t, p)
		b.fails["x"] = 1 // it has counted and sent by then
		b.bring("a:x", "b:1")
		b.commitNow()
		require.Equal(t, "b:1@1001", b.outs())
		require.Equal(t, map[string]string{"b": counted(1, 1001)}, b.rows(0))
		require.Len(t, b.out["counts-changelog-1"], 1)
		require.Len(t, b.out["in-retry-1"], 2, "the record and what is known of it")
		b.until(3)
		b.commitNow()
		require.Equal(t, "b:1@1001 a:x@1000", b.outs())
	}
}

// confluentinc/kafka-connect-jdbc #1597, KAFKA-9941: the offset advanced though the dead letter was not written, and did not where a retry had
// succeeded.
func TestRegressionOffsetAdvancesWithTheDeadLetterAndNoEarlier(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.Ordered(steady, retry.Attempts(1), retry.ThenDeadLetter()), retry.KeyOrdered(steady, retry.Attempts(1), retry.ThenDeadLetter()),
		retry.Parallel(steady, retry.Attempts(1), retry.ThenDeadLetter()),
	} {
		b := newBed(t, p)
		b.fails["x"], b.fails["y"] = 1, 0
		b.holdAcks = true
		b.bring("a:x")
		b.step(Commit{})
		require.Equal(t, 1, b.letters(), "it is on its way")
		require.NotEmpty(t, b.unacked)
		require.Len(t, b.seals, 1)
		require.Equal(t, b.unacked[len(b.unacked)-1], b.seals[0].Seq, "and the offset waits for its acknowledgement")
		b.crash()
		require.Zero(t, b.committed["in"].Offset)
		b.holdAcks = false
		b.fails["x"] = 1
		b.bring("a:x")
		b.commitNow()
		require.Equal(t, 2, b.letters(), "at least once")
		require.EqualValues(t, 1, b.committed["in"].Offset)
	}
	b := newBed(t, retry.Ordered(steady))
	b.fails["x"] = 3
	b.bring("a:x")
	b.until(8)
	b.commitNow()
	require.EqualValues(t, 1, b.committed["in"].Offset, "a success after tries is one")
}

// riverqueue/river #1318: a page of jobs that were not to be rescued yet hid those that were.
func TestRegressionEntriesThatAreFarFromDueStarveNoOther(t *testing.T) {
	for _, p := range []retry.Policy{retry.KeyOrdered(steady, retry.NoBreaker()), retry.Parallel(steady, retry.NoBreaker())} {
		b := newBed(t, p)
		for i := range 3000 {
			v := fmt.Sprint("far", i)
			b.fails[v], b.how[v] = 1, retry.After(errBad, 20*time.Hour)
			b.bring(fmt.Sprintf("k%d:%s", i, v))
		}
		b.fails["near"], b.how["near"] = 1, retry.After(errBad, 10*time.Millisecond)
		b.bring("n:near")
		b.now = b.now.Add(10 * time.Millisecond)
		b.step(Tick{})
		b.work()
		require.Equal(t, 2, b.ran["near"])
		require.Equal(t, 3000, b.stats().Parked)
	}
}

// riverqueue/river #1302: a rescue that had read old facts wrote over newer ones. A record that is read again after a crash finds its entry, with
// all that is known of it.
func TestRegressionRecordThatIsReadAgainDoesNotWriteOverItsEntry(t *testing.T) {
	for _, p := range []retry.Policy{retry.KeyOrdered(steady), retry.Parallel(steady)} {
		b := newBed(t, p)
		b.fails["x"], b.how["x"] = -1, fmt.Errorf("no answer: %w", errBad)
		b.bring("a:x")
		b.until(2)
		before := b.stats()
		require.Equal(t, 1, before.Parked)
		b.holdCommits = true
		b.step(Commit{})
		require.Len(t, b.seals, 1)
		offsets := b.committed["in"]
		b.apply(b.seals[0]) // the rows come through, the offsets do not
		b.committed["in"] = offsets
		b.holdCommits = false
		tried := b.ran["x"]
		b.crash()
		b.bring("a:x", "a:2")
		e := b.owner.Explain(0, 0)
		require.Equal(t, RecordParked, e.State)
		require.Equal(t, tried, e.Attempt)
		require.Equal(t, "no answer: bad value", e.Error)
		require.Equal(t, "flaky", e.Node)
		require.Equal(t, tried, b.ran["x"], "nor is it tried for that")
	}
}

// An entry that is found again behind another one of its key is written again: with all that is known of its failure.
func TestEntryThatGoesBehindAnotherKeepsItsMessage(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Backoff(time.Hour, time.Hour)))
	for _, v := range []string{"x", "y"} {
		b.fails[v], b.how[v] = -1, fmt.Errorf("%s has no answer", v)
	}
	b.bring("a:x")
	b.holdCommits = true
	b.step(Commit{})
	offsets := b.committed["in"]
	b.apply(b.seals[0])
	b.committed["in"] = offsets
	b.holdCommits = false
	b.crash()
	b.owner.t.failure.pool.index.Park(retry.Entry{Origin: parkedAt(7), Key: []byte("a"), Due: b.now.Add(time.Hour).UnixMilli()}) // of another input, say
	b.bring("a:x")
	b.commitNow()
	row, found := b.row(retry.AppendEntryKey(nil, parkedAt(0)))
	require.True(t, found)
	e, err := retry.DecodeEntry(parkedAt(0), row)
	require.NoError(t, err)
	require.Equal(t, retry.Follows, e.Due)
	require.Equal(t, "x has no answer", e.Message)
}

// What Explain says of a record that is put aside: why it failed last, and that it runs while it does.
func TestExplainOfARecordPutAside(t *testing.T) {
	y := newYard(t, retry.Parallel(steady, retry.Workers(2)))
	y.fails["x"], y.how["x"] = 1, fmt.Errorf("no answer: %w", errBad)
	y.bring("a:x")
	y.drain(false)
	e := y.owner.Explain(0, 0)
	require.Equal(t, RecordParked, e.State)
	require.Equal(t, "no answer: bad value", e.Error)
	require.Equal(t, "*errors.errorString", e.Class)
	y.now = y.now.Add(time.Second)
	y.step(Tick{})
	y.work()
	require.Len(t, y.handed, 1)
	e = y.owner.Explain(0, 0)
	require.Equal(t, RecordRunning, e.State)
	require.Equal(t, 1, e.Attempt)
	require.Zero(t, e.Due)

	o := newBed(t, retry.Ordered(steady))
	o.fails["x"] = -1
	o.bring("a:x")
	require.Equal(t, "*errors.errorString", o.owner.Explain(0, 0).Class, "as everywhere else")
}

// Whoever runs a redriven record sees where it was read: not the record of the source that has the same offset.
func TestSourceOfARedrivenRecord(t *testing.T) {
	for _, workers := range []int{1, 2} {
		var seen []string
		y := newYard(t, retry.Parallel(steady, retry.ThenDeadLetter(), retry.Workers(workers)), func(c *Config) {
			build := c.Spec.Build
			c.Spec.Build = func(e *Env) (*Graph, error) {
				g, err := build(e)
				in := g.Inputs[0]
				g.Inputs[0] = func(r *Record) {
					topic, partition, offset := e.Source()
					seen = append(seen, fmt.Sprintf("%s-%d@%d", topic, partition, offset))
					in(r)
				}
				return g, err
			}
		})
		y.feed(1, batch(4, redriven(3, 1)))
		y.drain(false)
		y.pass(2)
		require.Equal(t, []string{"redrive-1@3"}, seen, "%d workers", workers)
	}
}

// Each try of a record is told which one it is, wherever it is run.
func TestAttemptOfATry(t *testing.T) {
	var seen []int
	attempts := func(c *Config) {
		build := c.Spec.Build
		c.Spec.Build = func(e *Env) (*Graph, error) {
			g, err := build(e)
			in := g.Inputs[0]
			g.Inputs[0] = func(r *Record) {
				if string(r.Value) == "x" {
					seen = append(seen, e.Attempt())
				}
				in(r)
			}
			return g, err
		}
	}
	for name, p := range map[string]retry.Policy{
		"ordered": retry.Ordered(steady), "inline": retry.Ordered(steady, retry.Inline(2)), "keys": retry.KeyOrdered(steady), "parallel": retry.Parallel(steady),
		"keys, workers": retry.KeyOrdered(steady, retry.Workers(2)), "no room": retry.Parallel(steady, retry.Workers(2), retry.Parked(1, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			seen = nil
			y := newYard(t, p, attempts)
			if name == "no room" {
				y.fails["full"] = -1
				y.bring("f:full")
				y.drain(false)
			}
			y.fails["x"] = 3
			if name == "inline" {
				y.fails["x"] = 6
			}
			y.bring("k:0", "a:x")
			y.drain(false)
			y.pass(20)
			want := []int{1, 2, 3, 4}
			if name == "inline" {
				want = []int{1, 1, 2, 2, 3, 3, 4}
			}
			require.Equal(t, want, seen)
		})
	}
}

// The dead letters of a key and of those behind it belong together: they are not more than a minute takes, or the first of one.
func TestDeadLettersOfAKeyAreLimitedTogether(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Attempts(2), retry.ThenDeadLetter(), retry.WithFollowers(retry.FollowersToo), retry.Flood(4), retry.NoBreaker()))
	b.now = time.UnixMilli(20 * minute)
	b.step(Tick{})
	for _, v := range []string{"x", "y", "z"} {
		b.fails[v] = -1
	}
	b.bring("a:x", "a:1", "b:y", "b:2", "b:3")
	for b.letters() == 0 {
		b.until(1)
	}
	b.step(Tick{})
	b.work()
	require.Equal(t, 2, b.letters(), "three more are too many")
	require.Contains(t, b.stats().Why, "dead letters")
	b.now = time.UnixMilli(21 * minute)
	b.step(Tick{})
	b.work()
	require.Equal(t, 5, b.letters())
	b.bring("c:z", "c:4", "c:5", "c:6", "c:7", "c:8")
	b.until(4)
	b.now = time.UnixMilli(22 * minute)
	b.step(Tick{})
	b.work()
	require.Equal(t, 11, b.letters(), "more than a minute's come first in theirs")
}

// Of a record of which one of its two rows is damaged the dead letter has what there is, in the topic of its own source.
func TestDeadLetterOfADamagedRowHasWhatThereIs(t *testing.T) {
	for _, c := range []struct{ damaged, want string }{
		{"payload", "a:"}, {"entry", ":x@1000"},
	} {
		t.Run(c.damaged, func(t *testing.T) {
			b := newBed(t, retry.Parallel(steady, retry.ThenDeadLetter(), retry.Backoff(time.Hour, time.Hour)))
			b.fails["x"] = 1
			b.bring("a:x")
			b.commitNow()
			key := retry.AppendPayloadKey(nil, parkedAt(0))
			if c.damaged == "entry" {
				key = retry.AppendEntryKey(nil, parkedAt(0))
			}
			b.damage(key)
			b.crash()
			b.now = b.now.Add(2 * time.Hour)
			b.step(Tick{})
			b.work()
			b.commitNow()
			require.NoError(t, b.failed)
			require.Equal(t, 1, b.letters())
			require.Contains(t, b.sentTo("dlq"), "__understudy.errors.class=envelope")
			require.Contains(t, b.sentTo("dlq"), c.want)
			require.Empty(t, b.rows(1))
		})
	}
}

// damage flips a bit of a row of the retry store.
func (b *bed) damage(key []byte) {
	row, found := b.row(key)
	require.True(b.t, found)
	row[len(row)/2] ^= 1
	changes := []statestore.Change{{Key: key, Value: row, Timestamp: 1}}
	require.NoError(b.t, b.stores.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Store: 1, Changes: changes, Position: -1}}}))
}

// What holds no record as it was read does not come back as one, whoever writes it to the redrive topic.
func TestRegressionWhatIsNoRecordIsNotRunWhenItIsRedriven(t *testing.T) {
	for _, l := range []retry.Letter{
		{Origin: retry.Origin{Topic: "in", Partition: 1, Offset: 41}, Class: retry.ClassEnvelope, Message: "damaged", Redriven: 1},
		{Origin: retry.Origin{Partition: -1, Offset: -1}, Class: retry.ClassRow, Row: "counts", Message: "no", Redriven: 1},
	} {
		for _, p := range []retry.Policy{retry.Ordered(steady, retry.ThenDeadLetter()), retry.KeyOrdered(steady, retry.ThenDeadLetter())} {
			b := newBed(t, p)
			r := rec(0, "a", "x", 5)
			r.Headers = taskHeaders(l.AppendHeaders(nil, nil))
			b.feed(1, batch(1, r))
			b.until(2)
			b.commitNow()
			require.Empty(t, b.runs)
			require.Equal(t, 1, b.letters())
			require.Contains(t, b.sentTo("dlq"), "__understudy.errors.class="+l.Class)
			require.EqualValues(t, 1, b.committed["redrive"].Offset)
		}
	}
}

// What is put aside is bounded in bytes as well as in records: then the task waits, and goes on when there is room.
func TestParkedBytesAreBounded(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.KeyOrdered(steady, retry.NoBreaker(), retry.Parked(1000, 2000)), retry.Parallel(steady, retry.NoBreaker(), retry.Parked(1000, 2000)),
	} {
		b := newBed(t, p)
		var all []string
		for i := range 8 {
			v := fmt.Sprintf("x%0700d", i)
			b.fails[v] = 1
			all = append(all, fmt.Sprintf("k%d:%s", i, v))
		}
		b.bring(all...)
		require.LessOrEqual(t, b.stats().Bytes, int64(2000+800), "the one that fills it is the last")
		require.Equal(t, 3, b.stats().Parked)
		require.Contains(t, b.stats().Why, "bad value", "the task waits for the one that finds no room")
		b.until(40)
		b.commitNow()
		require.Zero(t, b.stats().Parked)
		require.Zero(t, b.stats().Bytes)
		require.EqualValues(t, 8, b.committed["in"].Offset)
	}
}

// Retries that take long never take more than their share of the workers from what is new, however much of that comes and goes meanwhile.
func TestRetriesThatTakeLongLeaveRoomForWhatIsNew(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4), steady, retry.NoBreaker(), retry.Backoff(time.Hour, time.Hour)))
	for i := range 40 {
		v := fmt.Sprint("slow", i)
		y.fails[v] = 1
		y.bring(fmt.Sprintf("s%d:%s", i, v))
		y.drain(false)
	}
	require.Equal(t, 40, y.stats().Parked)
	y.now = y.now.Add(2 * time.Hour)
	slow := func() (n int) {
		for _, it := range y.handed {
			if strings.HasPrefix(string(it.Record.Value), "slow") {
				n++
			}
		}
		return n
	}
	done, brought := 0, 0
	for done < 600 {
		if brought-done < 12 { // something new is there all the time
			var fresh []string
			for range 20 {
				fresh = append(fresh, fmt.Sprintf("f%d:new%d", brought%10, brought))
				brought++
			}
			y.bring(fresh...)
		}
		for _, it := range y.handed {
			require.Equal(t, strings.HasPrefix(string(it.Record.Value), "slow"), it.Path == RetryPath)
		}
		require.LessOrEqual(t, slow(), 2, "a quarter of what is handed out, after %d", done)
		// What is new is done at once, what is slow is not.
		y.turn(slices.IndexFunc(y.handed, func(it *Item) bool { return !strings.HasPrefix(string(it.Record.Value), "slow") }))
		done++
	}
	require.Equal(t, 2, slow(), "and that they have")

	for len(y.handed) > slow() { // nothing new is left
		y.turn(slices.IndexFunc(y.handed, func(it *Item) bool { return !strings.HasPrefix(string(it.Record.Value), "slow") }))
	}
	require.Equal(t, 6, slow(), "all but a quarter")
	y.bring("f0:new", "f1:new")
	require.Len(t, y.handed, 8, "who comes then finds room")
}
