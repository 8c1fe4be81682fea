package task

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// A record that fails first, is put aside, and ends the process when it is tried again, is ended as the policy says.
func TestEntryThatEndsItsProcess(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.ThenDeadLetter()))
	b.cfg.CommitInterval, b.cfg.Announce = time.Second, true
	records := []string{"a:x", "b:1", "c:2", "d:3", "e:4", "f:5"}
	b.fails["x"] = 1
	b.bring(records...)
	require.Equal(t, 1, b.stats().Parked)
	b.commitNow()
	b.fails["x"], b.how["x"] = -1, errKill
	b.now = b.now.Add(time.Minute)
	deaths := 0
	for ; deaths < 12 && b.letters() == 0; deaths++ {
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.crash()
			b.bringFrom(append(records, "g:6", "h:7", "i:8", "j:9"))
			b.until(3)
			b.commitNow()
		}()
		<-done
	}
	require.Equal(t, 1, b.letters())
	require.LessOrEqual(t, deaths, 6)
	require.Zero(t, b.stats().Parked)
	require.Contains(t, b.sentTo("dlq"), "class=crash")
}

// One that comes back with an error, each time, was not what ended the process.
func TestEntryThatFailsIsNoSuspect(t *testing.T) {
	for _, workers := range []int{1, 3} {
		y := newYard(t, retry.Parallel(steady, retry.Workers(workers), retry.Attempts(retry.Forever), retry.ThenDeadLetter(), retry.NoBreaker()),
			func(c *Config) { c.Announce = true })
		y.fails["x"], y.fails["y"] = -1, -1
		y.bring("a:x", "b:y")
		y.drain(false)
		y.commitNow()
		for range 6 {
			y.now = y.now.Add(time.Minute)
			y.crash()
			y.drain(false)
			y.pass(2)
			y.commitNow()
		}
		require.Zero(t, y.letters())
		require.Equal(t, 2, y.stats().Parked)
		y.fails["x"], y.fails["y"] = 0, 0
		y.now = y.now.Add(time.Minute)
		y.step(Tick{})
		y.work()
		y.drain(false)
		y.pass(5)
		require.Zero(t, y.stats().Parked)
	}
}

// What ends the process is not what was put aside and is due at that time, though both are suspected: neither is begun while a commit names the other.
func TestRegressionEntryIsNotBlamedForTheRecordThatKills(t *testing.T) {
	for _, early := range []bool{true, false} { // what was put aside is due before the main path has anything
		y := newYard(t, retry.Parallel(steady, retry.Workers(3), retry.Attempts(retry.Forever), retry.ThenDeadLetter()), func(c *Config) { c.Announce = true })
		records := []string{"a:x", "b:1", "c:2", "k:killer", "d:3", "e:4", "f:5"}
		y.fails["x"] = -1
		y.bring(records[:3]...)
		y.drain(false)
		require.Equal(t, 1, y.stats().Parked)
		y.commitNow()
		deaths, killing := 0, func(it *Item) bool { return string(it.Record.Value) == "killer" }
		for ; deaths < 12 && y.letters() == 0; deaths++ {
			y.now = y.now.Add(time.Minute)
			y.crash()
			entry, _ := y.owner.t.failure.pool.index.Find(y.owner.t.origin(0, 0))
			require.False(t, entry.Kind == string(KindCrash) && entry.Class != "1", "it has come back from each try before, and its entry says so")
			if early {
				y.step(Tick{})
				y.work()
			}
			y.bringFrom(records)
			for n := 0; n < 99 && y.letters() == 0 && !slices.ContainsFunc(y.handed, killing); n++ { // it dies in the middle of that one
				if len(y.handed) > 0 {
					y.turn(0)
				}
				y.until(1)
			}
		}
		require.Less(t, deaths, 12)
		require.Equal(t, 1, y.letters())
		require.Contains(t, y.sentTo("dlq"), "killer")
		y.fails["x"] = 0
		y.now = y.now.Add(time.Minute)
		y.pass(9)
		require.Zero(t, y.stats().Parked, "the other one has come through")
	}
}

// A record that a commit names may have to wait for what was put aside after all: there is no room behind the gate of its key. Neither waits for the other.
func TestNamedRecordThatWaitsForRetriesHoldsNoneUp(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Depth(1), retry.ThenDeadLetter()))
	b.cfg.Announce = true
	records := []string{"a:x", "a:1", "a:2", "a:3"}
	b.fails["x"] = 1
	b.bring(records...)
	b.commitNow()
	require.EqualValues(t, 2, b.committed["in"].Offset, "there is no room for more behind x")
	for range 4 {
		b.crash()
		b.bringFrom(records)
	}
	b.now = b.now.Add(time.Minute)
	b.until(50)
	b.commitNow()
	require.EqualValues(t, 4, b.committed["in"].Offset)
	require.Zero(t, b.stats().Parked)
}
