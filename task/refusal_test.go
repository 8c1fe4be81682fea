package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
)

// refuses makes the broker's refusal of what a record of the bed sends to "out".
func (b *bed) refuses(i int) {
	var printed []uint64
	for _, e := range b.sent {
		for g := range e.Groups {
			if e.Groups[g].To.Topic == "out" {
				for j := range e.Groups[g].Refs {
					printed = append(printed, e.Groups[g].Print(j))
				}
			}
		}
	}
	b.cfg.Refused = append(b.cfg.Refused, Refusal{Topic: "out", Print: printed[i], At: b.now.UnixMilli(), Err: kcode.InvalidRecord})
}

// A record that a broker has refused fails in its place when it is made again, and is committed with that before another is taken.
func TestARefusedRecordFailsInItsPlace(t *testing.T) {
	p := retry.Ordered(retry.ThenDeadLetter(), retry.OnProduce(retry.Ordered(retry.Attempts(1), retry.ThenDeadLetter())))
	b := newBed(t, p)
	b.holdAcks = true
	b.bring("a:1", "a:2", "a:3")
	b.step(Commit{})
	b.refuses(1)
	b.out, b.sent, b.holdAcks, b.holdCommits = map[string][]string{}, nil, false, true
	b.start(b.cfg)
	b.bring("a:1", "a:2", "a:3")
	require.Equal(t, 1, b.letters())
	require.Equal(t, 2, b.ran["2"])
	require.Equal(t, 1, b.ran["3"], "first the commit")
	b.commit(nil)
	b.holdCommits = false
	b.work()
	b.commitNow()
	require.Equal(t, 2, b.ran["3"])
	require.Equal(t, int64(3), b.committed["in"].Offset)
	require.Equal(t, 1, b.letters())
	require.NoError(t, b.owner.Err())
}

// After a while a record is sent once more: what has refused it may take it now.
func TestARefusalHoldsForAWhile(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.OnProduce(retry.Ordered(steady, retry.Attempts(retry.Forever)))))
	b.holdAcks = true
	b.bring("a:1")
	b.step(Commit{})
	b.refuses(0)
	b.out, b.sent, b.holdAcks = map[string][]string{}, nil, false
	b.start(b.cfg)
	b.bring("a:1")
	b.until(2)
	require.Empty(t, b.out["out-0"])
	require.Empty(t, b.out["out-1"])
	b.now = b.now.Add(RefusalHolds)
	b.until(3)
	b.commitNow()
	require.Len(t, append(b.out["out-0"], b.out["out-1"]...), 1)
	require.Equal(t, int64(1), b.committed["in"].Offset)
}

// A dead letter that the broker refuses has no policy of its own: it ends the task.
func TestARefusedDeadLetterStops(t *testing.T) {
	b := newBed(t, retry.Ordered(retry.ThenDeadLetter(), retry.Attempts(1), retry.OnProduce(retry.Ordered(retry.Attempts(1), retry.ThenDeadLetter()))))
	b.holdAcks = true
	b.fails["1"] = -1
	b.bring("a:1")
	b.step(Commit{})
	for _, e := range b.sent {
		b.cfg.Refused = append(b.cfg.Refused, Refusal{Topic: "dlq", Print: e.Groups[0].Print(0), At: b.now.UnixMilli(), Err: kcode.InvalidRecord})
	}
	b.sent, b.holdAcks = nil, false
	b.start(b.cfg)
	b.bring("a:1")
	require.ErrorIs(t, b.owner.Err(), kcode.InvalidRecord)
	require.Empty(t, b.committed["in"].Offset)
}
