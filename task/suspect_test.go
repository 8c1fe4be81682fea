package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// said is what the last commit says of the input.
func (w *world) said() retry.Metadata {
	c := w.committed["in"]
	m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
	require.NoError(w.t, err)
	return m
}

// An application that stops as its policy says, and is started again and again by whoever watches it, has not died in the middle of a record.
func TestTaskThatStopsIsNoCrash(t *testing.T) {
	b := newBed(t, retry.Stop())
	b.cfg.Announce = true
	b.fails["x"] = -1
	for range 8 {
		b.crash() // of a task that has stopped: nothing comes after what it has committed
		b.bring("a:x")
		require.ErrorIs(t, b.failed, errBad)
		require.False(t, b.said().Running)
	}
	require.Equal(t, 8, b.ran["x"])
}

// A process that is killed while a record waits for its next try was not killed by that record.
func TestRecordThatWaitsIsNoSuspect(t *testing.T) {
	b := newBed(t, retry.Ordered(retry.Attempts(retry.Forever), retry.Backoff(time.Minute, time.Minute), retry.Jitter(0), retry.ThenDeadLetter()))
	b.cfg.Announce = true
	b.fails["x"] = -1
	for range 12 {
		b.crash()
		b.bring("a:x", "b:y")
		b.until(2)
		require.Zero(t, b.letters())
		require.EqualValues(t, -1, b.said().Suspect, "it has come back with an error")
	}
	b.fails["x"] = 0
	b.until(5)
	b.commitNow()
	require.Equal(t, "a:x@1000 b:y@1001", b.outs())
}

// Records that kill their process are found where the policy has several workers too, and some above them are done.
func TestWorkersCrashSuspects(t *testing.T) {
	y := newYard(t, retry.KeyOrdered(retry.Workers(4), retry.ThenDeadLetter()), func(c *Config) { c.Announce = true })
	var records []string
	for i := range 12 {
		records = append(records, fmt.Sprintf("k%d:v%d", i, i))
	}
	records[2] = "bad:kill"
	deaths := 0
	for ; deaths < 12 && y.low() < 12; deaths++ {
		y.crash()
		y.bringFrom(records)
		y.until(2) // a suspect is not taken at once
		killed := false
		for len(y.handed) > 0 {
			if y.values() == "kill" { // the last of those that run: what the others have done is committed before
				y.commitNow()
				killed = true
				break
			}
			i := 0
			if string(y.handed[0].Record.Value) == "kill" {
				i = 1
			}
			y.turn(i)
		}
		if !killed {
			y.commitNow()
		}
	}
	require.EqualValues(t, 12, y.low())
	require.Equal(t, 1, y.letters())
	require.LessOrEqual(t, deaths, 6)
}

// A suspect that cannot be ended now, as so many dead letters were written in this minute, is not run instead.
func TestSuspectWaitsForTheFloodToEnd(t *testing.T) {
	b := newBed(t, retry.Parallel(retry.ThenDeadLetter(), retry.Flood(1), retry.Attempts(1), retry.NoBreaker()))
	b.committed["in"] = suspected(t, 0)
	b.crash()
	b.fails["w"] = -1
	b.owner.t.failure.flood = flood{minute: b.now.UnixMilli() / minute, sent: 1}
	b.bring("a:x", "b:1")
	require.Zero(t, b.letters())
	b.until(4)
	require.Equal(t, 1, b.letters())
	require.Zero(t, b.ran["x"])
	require.Equal(t, "b:1@1001", b.outs())
}

// suspected is a commit that names the record at an offset, after a death in the middle of it.
func suspected(t *testing.T, offset int64) InputOffset {
	m := retry.Metadata{StreamTime: -1, Main: offset + 1, Running: true, Starts: 3, Suspect: offset, Deaths: 1}
	text, ok := m.Encode(offset)
	require.True(t, ok)
	return InputOffset{TopicPartition: TopicPartition{"in", 1}, Offset: offset, Metadata: text}
}

// A task that was stopped by the end of a suspect tries it again when somebody has started it again: it may have been innocent.
func TestSuspectThatStoppedTheTaskIsTriedAgain(t *testing.T) {
	b := newBed(t, retry.Ordered(retry.Crashes(2)))
	b.cfg.Announce = true
	b.committed["in"] = suspected(t, 0)
	b.crash()
	b.bring("a:x")
	b.until(3)
	require.ErrorContains(t, b.failed, "the process has died")
	b.failed = nil
	b.crash()
	b.bring("a:x")
	b.until(3)
	require.NoError(t, b.failed)
	require.Equal(t, 1, b.ran["x"])
}

// Tasks that have died together run their suspects one after the other: a process that dies again has been in the middle of one of them only.
func TestSuspectsOfAProcessAreRunOneAtATime(t *testing.T) {
	var holder any
	beds := make([]*bed, 3)
	for i := range beds {
		b := newBed(t, retry.Ordered(retry.ThenDeadLetter(), retry.Crashes(5)))
		b.committed["in"] = suspected(t, 0)
		b.cfg.Announce = true
		b.cfg.Turn = func(_ ID, take bool) bool {
			if !take && holder == b {
				holder = nil
			}
			if take && holder == nil {
				holder = b
			}
			return !take || holder == b
		}
		beds[i] = b
	}
	for _, b := range beds {
		b.crash()
		b.commitNow()
		b.holdCommits = true
	}
	inTheMiddle := func() (n int) {
		for _, b := range beds {
			if b.owner.t.failure.suspects.inputs[0].named == 0 {
				n++
			}
		}
		return n
	}
	for i := range 40 {
		for _, b := range beds {
			if i == 0 {
				b.bring("a:x", "b:1")
			}
			b.until(1)
			b.step(Tick{})
			b.work()
			require.LessOrEqual(t, inTheMiddle(), 1)
			for len(b.seals) > 0 && len(b.unacked) == 0 {
				b.commit(nil)
			}
			b.work()
		}
	}
	for _, b := range beds {
		b.holdCommits = false
		b.commitNow()
		require.EqualValues(t, 2, b.committed["in"].Offset)
		require.Zero(t, b.letters())
	}
	require.Nil(t, holder, "and nobody keeps the turn")
}

// A task that is lost while it has the turn does not keep it.
func TestTaskThatIsLostGivesItsTurnBack(t *testing.T) {
	held := false
	b := newBed(t, retry.Ordered(retry.ThenDeadLetter(), retry.Crashes(5)))
	b.committed["in"] = suspected(t, 0)
	b.cfg.Turn = func(_ ID, take bool) bool { held = take; return true }
	b.crash()
	b.holdCommits = true
	b.bring("a:x")
	require.True(t, held)
	b.step(Lost{})
	require.False(t, held)
}

// A record that comes back with an error has not ended the process: deaths from before that do not count against it any more.
func TestRecordThatComesBackBeginsAnew(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.Attempts(retry.Forever), retry.ThenDeadLetter()))
	b.cfg.CommitInterval, b.cfg.Announce = time.Second, true
	records := []string{"a:x", "a:1"}
	live := func(then func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.crash()
			b.bringFrom(records)
			then()
		}()
		<-done
	}
	b.fails["x"], b.how["x"] = -1, errKill
	for b.owner == nil || b.owner.t.failure.suspects.inputs[0].deaths == 0 {
		require.Less(t, b.ran["x"], 6)
		live(func() { b.until(3) })
		b.crash() // looks whether it is known by now, and gets nothing to do
	}
	require.Equal(t, 1, b.owner.t.failure.suspects.inputs[0].deaths)
	b.how["x"] = errBad
	live(func() {
		tried := b.ran["x"]
		for b.ran["x"] == tried {
			b.until(1)
		}
		b.commitNow()
		b.how["x"] = errKill
		b.until(10)
	})
	b.fails["x"] = 0
	b.crash()
	b.bringFrom(records)
	b.until(10)
	b.commitNow()
	require.Zero(t, b.letters(), "it has ended the process once since then")
	require.EqualValues(t, 2, b.committed["in"].Offset)
}
