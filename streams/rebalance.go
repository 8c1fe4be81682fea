package streams

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
)

// RebalanceInfo says how a rebalance went, as this process saw it.
type RebalanceInfo struct {
	Generation int32
	// Reason is why this process took part, in words: what it asked for itself, or that another member joined, left or asked for it.
	Reason string
	// Took is the time from the moment at which this process heard of the rebalance to its new assignment. Tasks run on meanwhile, but for those
	// of Paused.
	Took time.Duration
	// Tasks run here now, in order.
	Tasks []TaskID
	// Moves are the changes of owner that begin or end here; at the leader of the group, all of them.
	Moves  []Move
	Leader bool
	// Paused are the tasks that stood still here until now. One that still does, because its last records took longer than the rebalance waits
	// for, is in the Paused of the one in which it moves, or goes on here.
	Paused []Pause
	// Unassigned are tasks that no process can run, such as those of a part of the topology that only an older version of the program had. Only
	// the leader knows.
	Unassigned []TaskID
	// Degraded says why the leader made a plan that moves nothing although it should; empty otherwise, and at all others.
	Degraded string
}

// MoveKind says how far a Move is.
type MoveKind uint8

// The kinds of a Move.
const (
	MoveBegun  = MoveKind(assignor.Marked)      // its owner runs the task until the receiver is ready
	MoveDone   = MoveKind(assignor.Transferred) // the receiver has the task
	MovePlaced = MoveKind(assignor.Placed)      // nobody ran the task; now somebody does
)

func (k MoveKind) String() string {
	switch k {
	case MoveDone:
		return "done"
	case MovePlaced:
		return "placed"
	default:
		return "begun"
	}
}

// Move is a change of the owner of a task.
type Move struct {
	Task TaskID
	Kind MoveKind
	// From and To are members of the group; From is empty where nobody ran the task.
	From, To string
	// Reason says why, in words: task 0_3 moves to worker-b when it has learned it: worker-a has 2 more tasks.
	Reason string
}

// Pause is a task that stood still in a rebalance, from the moment at which it was asked to stop to the new assignment.
type Pause struct {
	Task TaskID
	For  time.Duration
	// Moved says that the task has gone to another process, where it goes on. Otherwise it goes on here.
	Moved bool
}

func rebalanceOf(n engine.Notice) RebalanceInfo {
	info := RebalanceInfo{
		Generation: n.Generation, Reason: n.Text, Took: n.Took, Tasks: n.Tasks, Leader: n.Leader, Unassigned: n.Unassigned, Degraded: n.What,
	}
	for _, m := range n.Moves {
		info.Moves = append(info.Moves, Move{Task: m.Task, Kind: MoveKind(m.Kind), From: m.From, To: m.To, Reason: m.Reason})
	}
	for _, p := range n.Paused {
		info.Paused = append(info.Paused, Pause(p))
	}
	return info
}

// logRebalance writes one line for a rebalance, and one for each thing about its plan that somebody should look at.
func logRebalance(log *zap.Logger, n engine.Notice) {
	info := rebalanceOf(n)
	fields := []zap.Field{
		zap.Int32("generation", info.Generation), zap.String("reason", info.Reason), zap.Duration("took", info.Took), zap.Stringers("tasks", info.Tasks),
	}
	if len(info.Moves) > 0 {
		moves := make([]loggedMove, len(info.Moves))
		for i, m := range info.Moves {
			moves[i] = loggedMove(m)
		}
		fields = append(fields, zap.Objects("moves", moves))
	}
	if len(info.Paused) > 0 {
		paused := make([]loggedPause, len(info.Paused))
		for i, p := range info.Paused {
			paused[i] = loggedPause(p)
		}
		fields = append(fields, zap.Objects("paused", paused))
	}
	log.Info("rebalanced", fields...)
	if info.Degraded != "" {
		log.Warn("the plan of the group moves nothing although it should", zap.Int32("generation", info.Generation), zap.String("reason", info.Degraded))
	}
	if len(info.Unassigned) > 0 {
		log.Warn("tasks that no process can run: start one whose program has them", zap.Int32("generation", info.Generation), zap.Stringers("tasks", info.Unassigned))
	}
}

// The forms in which moves and pauses are logged.
type (
	loggedMove  Move
	loggedPause Pause
)

func (m loggedMove) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("task", m.Task.String())
	enc.AddString("move", m.Kind.String())
	if m.From != "" {
		enc.AddString("from", m.From)
	}
	enc.AddString("to", m.To)
	enc.AddString("reason", m.Reason)
	return nil
}

func (p loggedPause) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("task", p.Task.String())
	enc.AddDuration("for", p.For)
	enc.AddBool("moved", p.Moved)
	return nil
}
