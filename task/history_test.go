package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"pgregory.net/rapid"
)

// history drives an owner through anything that can happen, over two logs, and knows what must be committed.
type history struct {
	*world
	cfg  Config
	logs [2][]Record
	sent [2]int // how much of each log was brought to the running owner
}

func twoInputs(atCommit bool) *Spec {
	s := countSpec(atCommit)
	s.Inputs = []Input{{Topic: "a"}, {Topic: "b"}}
	build := s.Build
	s.Build = func(e *Env) (*Graph, error) {
		g, err := build(e)
		g.Inputs = append(g.Inputs, g.Inputs[0])
		e.Schedule("timer", 5*time.Millisecond, StreamTime, func(int64) {})
		return g, err
	}
	return s
}

// check compares what is committed with a count of the committed part of the logs.
func (h *history) check() {
	counts, times, st := map[string]int{}, map[string]int64{}, int64(-1)
	for i, topic := range []string{"a", "b"} {
		c := h.committed[topic]
		for _, r := range h.logs[i][:c.Offset] {
			counts[string(r.Key)]++
			times[string(r.Key)] = max(times[string(r.Key)], r.Timestamp)
			st = max(st, r.Timestamp)
		}
	}
	want := map[string]string{}
	for k, n := range counts {
		want[k] = fmt.Sprintf("%d@%d", n, times[k])
	}
	require.Equal(h.t, want, h.rows(0))
	if len(counts) > 0 {
		m, err := retry.ParseMetadata(h.committed["a"].Metadata, h.committed["a"].Offset, -1)
		require.NoError(h.t, err)
		require.Equal(h.t, st, m.StreamTime)
	}
}

func (h *history) restart() {
	h.start(h.cfg)
	for i, topic := range []string{"a", "b"} {
		h.sent[i] = int(h.committed[topic].Offset)
	}
}

// bring hands the next n records of a log over.
func (h *history) bring(i, n int) {
	n = min(n, len(h.logs[i])-h.sent[i])
	rs := append([]Record(nil), h.logs[i][h.sent[i]:h.sent[i]+n]...)
	h.sent[i] += n
	h.step(Fetched{i, batch(int64(h.sent[i]), rs...)})
}

func TestAnyHistoryCommitsAConsistentPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atCommit := rapid.Bool().Draw(t, "at commit")
		h := &history{world: &world{t: t, now: epoch0}, cfg: Config{Spec: twoInputs(atCommit), DirtyBytes: 60, CreditBytes: 4000}}
		h.mem = newMemory()
		h.holdAcks, h.holdCommits = true, true
		h.start(h.cfg)
		num := func(n int, what string) int { return rapid.IntRange(0, n).Draw(t, what) }
		t.Repeat(map[string]func(*rapid.T){
			"append": func(*rapid.T) {
				i := num(1, "log")
				for range num(4, "n") {
					off := int64(len(h.logs[i]))
					h.logs[i] = append(h.logs[i], rec(off, string(rune('a'+num(5, "key"))), "v", int64(num(40, "ts"))))
				}
			},
			"bring": func(*rapid.T) { h.bring(num(1, "log"), num(5, "n")) },
			"work": func(*rapid.T) {
				if h.owner.Runnable() {
					h.step(Work{Records: 1 + num(6, "n")})
				}
			},
			"time": func(*rapid.T) { h.advance(time.Duration(num(700, "ms")) * time.Millisecond) },
			"seal": func(*rapid.T) { h.step(Commit{}) },
			"ack": func(*rapid.T) {
				if len(h.unacked) > 0 {
					h.ack()
				}
			},
			"committed": func(*rapid.T) {
				for len(h.seals) > 0 && len(h.unacked) > 0 && h.unacked[0] <= h.seals[0].Seq {
					h.ack()
				}
				if len(h.seals) > 0 {
					h.commit(nil)
				}
			},
			"refused": func(*rapid.T) {
				if len(h.seals) > 0 {
					h.commit(errors.New("refused"))
					require.Equal(t, StateFailed, h.owner.State())
					h.restart()
				}
			},
			"lost": func(*rapid.T) {
				h.step(Lost{})
				h.step(Close{})
				h.restart()
			},
			"crash":   func(*rapid.T) { h.restart() },
			"release": func(*rapid.T) { h.step(Release{}) },
			"resume":  func(*rapid.T) { h.step(Resume{}) },
			"":        func(*rapid.T) { h.check(); require.NoError(t, h.failed) },
		})
		h.holdAcks, h.holdCommits = false, false
		h.step(Tick{})
		h.step(Resume{})
		for i := range h.logs {
			h.bring(i, len(h.logs[i]))
		}
		for range 3 { // suspects of crashes are not taken at once
			h.work()
			h.advance(2 * time.Second)
		}
		h.work()
		h.step(Release{})
		require.Equal(t, StateReleased, h.owner.State())
		h.check()
		for i, topic := range []string{"a", "b"} {
			if len(h.logs[0])+len(h.logs[1]) > 0 {
				require.EqualValues(t, len(h.logs[i]), h.committed[topic].Offset, topic)
			}
		}
		require.Zero(t, h.owner.Stats().Unacked)
	})
}

// TestTheSameEventsGiveTheSameActions runs one history twice, with other hash seeds.
func TestTheSameEventsGiveTheSameActions(t *testing.T) {
	run := func(seed uint64) (lines []string) {
		h := &history{world: &world{t: t, now: epoch0}, cfg: Config{Spec: twoInputs(true), Seed: seed}}
		h.mem = newMemory()
		h.start(h.cfg)
		r := rand.New(rand.NewPCG(1, 2))
		for range 400 {
			i := r.IntN(2)
			off := int64(len(h.logs[i]))
			h.logs[i] = append(h.logs[i], rec(off, fmt.Sprint(r.IntN(30)), "v", r.Int64N(1000)))
			h.bring(i, 3)
			lines = append(lines, h.actions...)
			h.step(Work{Records: r.IntN(4)})
			lines = append(lines, h.actions...)
			h.advance(time.Duration(r.IntN(200)) * time.Millisecond)
			lines = append(lines, h.actions...)
		}
		for _, k := range sortedKeys(h.out) {
			lines = append(lines, h.out[k]...)
		}
		return append(lines, h.commits...)
	}
	require.Equal(t, run(1), run(99))
}
