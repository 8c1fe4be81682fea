package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// heard lets an application hear a notice, and returns what it logged.
func heard(l Listener, n engine.Notice) []observer.LoggedEntry {
	core, logs := observer.New(zap.DebugLevel)
	a := &App{cfg: Config{Listener: l, Log: zap.New(core)}}
	a.notice(n)
	return logs.All()
}

var moved = task.ID{Subtopology: 1, Partition: 3}

func TestRebalanceIsToldWithItsReasons(t *testing.T) {
	var got RebalanceInfo
	logs := heard(Listener{Rebalanced: func(i RebalanceInfo) { got = i }}, engine.Notice{
		Kind: engine.NoticeRebalanced, Generation: 7, Text: "another member joined, left or asked for it", Took: time.Second, Tasks: []task.ID{{}}, Leader: true,
		Moves: []assignor.Move{
			{Task: moved, Kind: assignor.Transferred, From: "a", To: "b", Reason: "task 1_3 has moved to b: a has handed it over"},
			{Task: task.ID{Partition: 1}, Kind: assignor.Placed, To: "b", Reason: "task 0_1 goes to b: nobody runs it"},
		},
		Paused:     []engine.Pause{{Task: moved, For: 12 * time.Millisecond, Moved: true}},
		Unassigned: []task.ID{{Subtopology: 9}}, What: "task 1_3 has two owners",
	})
	require.Equal(t, RebalanceInfo{
		Generation: 7, Reason: "another member joined, left or asked for it", Took: time.Second, Tasks: []TaskID{{}}, Leader: true,
		Moves: []Move{
			{Task: moved, Kind: MoveDone, From: "a", To: "b", Reason: "task 1_3 has moved to b: a has handed it over"},
			{Task: task.ID{Partition: 1}, Kind: MovePlaced, To: "b", Reason: "task 0_1 goes to b: nobody runs it"},
		},
		Paused:     []Pause{{Task: moved, For: 12 * time.Millisecond, Moved: true}},
		Unassigned: []TaskID{{Subtopology: 9}}, Degraded: "task 1_3 has two owners",
	}, got)

	require.Len(t, logs, 3)
	require.Equal(t, zap.InfoLevel, logs[0].Level)
	require.Equal(t, "rebalanced", logs[0].Message)
	require.Equal(t, map[string]any{
		"generation": int32(7), "reason": "another member joined, left or asked for it", "took": time.Second, "tasks": []any{"0_0"},
		"moves": []any{
			map[string]any{"task": "1_3", "move": "done", "from": "a", "to": "b", "reason": "task 1_3 has moved to b: a has handed it over"},
			map[string]any{"task": "0_1", "move": "placed", "to": "b", "reason": "task 0_1 goes to b: nobody runs it"},
		},
		"paused": []any{map[string]any{"task": "1_3", "for": 12 * time.Millisecond, "moved": true}},
	}, logs[0].ContextMap())
	for i, what := range map[int]any{1: "task 1_3 has two owners", 2: []any{"9_0"}} {
		require.Equal(t, zap.WarnLevel, logs[i].Level)
		require.Equal(t, what, logs[i].ContextMap()[map[int]string{1: "reason", 2: "tasks"}[i]])
	}
}

func TestRebalanceThatMovesNothingIsOneShortLine(t *testing.T) {
	logs := heard(Listener{}, engine.Notice{Kind: engine.NoticeRebalanced, Generation: 2, Text: "start"})
	require.Len(t, logs, 1)
	require.Len(t, logs[0].ContextMap(), 4)
}

func TestWhatHappensToCopiesIsTold(t *testing.T) {
	var id TaskID
	var records int64
	var took time.Duration
	take := func(i TaskID, n int64, d time.Duration) { id, records, took = i, n, d }
	for name, c := range map[string]struct {
		kind  engine.NoticeKind
		l     Listener
		level string
	}{
		"learned":  {engine.NoticeLearned, Listener{Learned: take}, "info"},
		"stalled":  {engine.NoticeStalled, Listener{Stalled: take}, "warn"},
		"promoted": {engine.NoticePromoted, Listener{Promoted: take}, "info"},
		"cleaned":  {engine.NoticeCleaned, Listener{Cleaned: func(i TaskID) { take(i, 5, time.Minute) }}, "info"},
	} {
		t.Run(name, func(t *testing.T) {
			id, records, took = TaskID{}, 0, 0
			logs := heard(c.l, engine.Notice{Kind: c.kind, Task: moved, Records: 5, Took: time.Minute})
			require.Equal(t, moved, id)
			require.EqualValues(t, 5, records)
			require.Equal(t, time.Minute, took)
			require.Len(t, logs, 1)
			require.Equal(t, c.level, logs[0].Level.String())
			require.Equal(t, "1_3", logs[0].ContextMap()["task"])
			require.NotPanics(t, func() { heard(Listener{}, engine.Notice{Kind: c.kind}) })
		})
	}
}

// What nobody waits for is not told on and on.
func TestRestoreOfACopyIsTwoLines(t *testing.T) {
	for role, progress := range map[engine.Role]string{engine.Active: "info", engine.Standby: "debug", engine.Learner: "debug"} {
		var got RestoreProgress
		l := Listener{Restore: func(p RestoreProgress) { got = p }}
		for kind, level := range map[engine.NoticeKind]string{
			engine.NoticeRestoreBegin: "info", engine.NoticeRestore: progress, engine.NoticeRestoreEnd: "info",
		} {
			logs := heard(l, engine.Notice{Kind: kind, Role: role, Task: moved})
			require.Len(t, logs, 1)
			require.Equal(t, level, logs[0].Level.String())
			require.Equal(t, role.String(), logs[0].ContextMap()["role"])
			require.Equal(t, Role(role), got.Role)
		}
	}
}
