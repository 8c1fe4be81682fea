package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func TestRecoveryIsToldAndLogged(t *testing.T) {
	notice := engine.Notice{
		Task: moved, Part: task.TopicPartition{Topic: "in", Partition: 3}, Start: 70, Position: 80, End: 120, Records: 40, Took: 5 * time.Second,
	}
	for kind, want := range map[engine.NoticeKind]struct {
		state RecoveryState
		level string
		says  string
	}{
		engine.NoticeGap:           {RecoveryReplaying, "info", "goes on with what is new, and replays beside it what was left behind"},
		engine.NoticeReplay:        {RecoveryReplaying, "info", "replaying what was left behind"},
		engine.NoticeReplayStalled: {RecoveryStalled, "warn", "the replay of what was left behind does not get on"},
		engine.NoticeGapClosed:     {RecoveryDone, "info", "what was left behind is replayed"},
	} {
		n := notice
		n.Kind = kind
		var got Recovery
		logs := heard(Listener{Recovery: func(r Recovery) { got = r }}, n)
		require.Equal(t, Recovery{Task: moved, Topic: "in", Partition: 3, Lo: 70, Position: 80, Hi: 120, Left: 40, State: want.state}, got)
		require.Len(t, logs, 1)
		require.Equal(t, want.says, logs[0].Message)
		require.Equal(t, want.level, logs[0].Level.String())
		fields := logs[0].ContextMap()
		require.EqualValues(t, 70, fields["offset"])
		require.EqualValues(t, 120, fields["end"])
		require.EqualValues(t, 20, fields["percent"])
	}
}

func TestRecoveryLostIsToldWithTheExactRange(t *testing.T) {
	n := engine.Notice{
		Kind: engine.NoticeRangeLost, Task: moved, Part: task.TopicPartition{Topic: "in", Partition: 3}, Start: 71, End: 90, Records: 19, Text: "retention",
	}
	var lost OffsetRange
	logs := heard(Listener{
		Recovery: func(Recovery) { t.Error("a lost range is no progress") },
		RecoveryLost: func(topic string, partition int32, r OffsetRange) {
			require.Equal(t, "in", topic)
			require.EqualValues(t, 3, partition)
			lost = r
		},
	}, n)
	require.Equal(t, OffsetRange{71, 90}, lost)
	require.Len(t, logs, 1)
	require.Equal(t, zap.ErrorLevel, logs[0].Level)
	require.EqualValues(t, 19, logs[0].ContextMap()["records"])
	require.Len(t, heard(Listener{}, n), 1, "nobody needs to listen")
}

func TestRecoveryOfWhatTheRuntimeSays(t *testing.T) {
	since, beat := time.UnixMilli(1), time.UnixMilli(2)
	got := recoveryOf(engine.RecoveryStatus{
		Task: moved, Part: task.TopicPartition{Topic: "in", Partition: 3}, State: engine.RecoveryLost, Rate: 5, ETA: time.Second, Since: since, Heartbeat: beat,
		Replay: task.Replay{Lo: 70, Hi: 120, Position: 90, Left: 5, Lost: []retry.Run{{From: 71, To: 90}}},
	})
	require.Equal(t, Recovery{
		Task: moved, Topic: "in", Partition: 3, Lo: 70, Hi: 120, Position: 90, Left: 5, Rate: 5, ETA: time.Second, State: RecoveryLost,
		Lost: []OffsetRange{{71, 90}}, Since: since, Heartbeat: beat,
	}, got)
	require.True(t, got.Alive())
	got.Left = 0
	require.False(t, got.Alive())
	require.False(t, Recovery{Left: 1, State: RecoveryStalled}.Alive())
	require.False(t, Recovery{State: RecoveryDone}.Alive())
}

func TestRecoveryOnATerminal(t *testing.T) {
	r := Recovery{Topic: "in", Partition: 3, Lo: 70, Hi: 120, Left: 25, Rate: 2.5, ETA: 10 * time.Second}
	require.Equal(t, "in/3 [###############---------------]  50% of 70..120, 25 left, 2/s, eta 10s, replaying", r.String())
	r = Recovery{Topic: "in", Partition: 3, Lo: 70, Hi: 120, State: RecoveryLost, Lost: []OffsetRange{{71, 90}}}
	require.Equal(t, "in/3 [##############################] 100% of 70..120, lost 71..90", r.String())
	require.InDelta(t, 0, Recovery{Lo: 70, Hi: 120, Left: 80}.Done(), 0, "gaps that others have left may be in it")
}

// Before Run there is nothing to be told.
func TestRecoveryOfAnApplicationThatDoesNotRun(t *testing.T) {
	a := &App{}
	require.Empty(t, a.Recovery())
	require.False(t, a.Recovering())
}
