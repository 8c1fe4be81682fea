package streams

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
)

// Listener is told what happens in an application. Each function may be nil. They are called on one goroutine of the runtime, one at a
// time and in order, and must return soon: the group's heartbeats wait for them.
type Listener struct {
	// State is called when the application's state has changed.
	State func(State)
	// Rebalanced is called after each rebalance, before Assigned: why it was, what moved and what stood still for it.
	Rebalanced func(RebalanceInfo)
	// Assigned is called after each rebalance with the tasks that run here, in order. Copies are not among them: see [App.Tasks].
	Assigned func(tasks []TaskID)
	// Lost is called when the membership of the group ended by force; tasks that ran here may run elsewhere already.
	Lost func(reason string)
	// Task is called when a task changes its state: opening, restoring, running, releasing, released, following, closing, closed. One that is
	// released has stopped, with all it did committed, to be handed over; a standby or a learner is following.
	Task func(id TaskID, state string)
	// Restore is called when the restore of a store begins, about once a second while it goes on, and when it has ended; for a standby or a
	// learner until it has caught up for the first time. Where nothing is missing it is not called.
	Restore func(RestoreProgress)
	// Learned is called when a learner is ready to take its task over, after that time and with so many records still to come. The next
	// rebalance moves the task.
	Learned func(id TaskID, lag int64, took time.Duration)
	// Stalled is called when a learner has not come closer to the end of its changelog for that time. The group may let another process learn
	// the task.
	Stalled func(id TaskID, lag int64, waited time.Duration)
	// Promoted is called when a standby or a learner has become the owner of its task and runs it: after that time since its assignment, in
	// which so many records were restored that the copy was behind.
	Promoted func(id TaskID, lacked int64, took time.Duration)
	// Cleaned is called when the state of a task that has not been here for Config.StateCleanup was deleted.
	Cleaned func(id TaskID)
	// PutAside is called when the state on disk was found to be damaged. It lies at path now, with at most one that was put aside before, and
	// is restored from the changelogs.
	PutAside func(path string)
	// Wiped is called when what is on disk does not fit the changelog: it is thrown away and rebuilt. Reason says how it does not fit.
	Wiped func(id TaskID, topic string, partition int32, reason string)
	// Retry is called each time something failed that is tried again without an end: no broker answers, a commit was refused. What names
	// the thing. An application that waits for its brokers says so here, and in Log.
	Retry func(what string, err error)
	// Suspended is called when the disk of Config.StateDir is full, or its quota used up: all tasks end, and the process leaves the group, so
	// that others take its tasks over. The error names the directory and says how much is free.
	Suspended func(why *NoRoomError)
	// Resumed is called when there is room again, and the process joins the group as if it had been started anew.
	Resumed func(after time.Duration)
	// DeadLetter is called when a record has failed for good and was written to the dead-letter topic. Of very many at a time not all are told.
	DeadLetter func(*RecordError)
	// Skipped is called when a row that belongs to no record has failed for good and the policy leaves it out.
	Skipped func(*RecordError)
	// Waits is called each minute for a record that is tried again without an end while its task waits: the next try is at that time.
	Waits func(why *RecordError, next time.Time)
	// Outage is called when so many records fail in one way that it is no fault of theirs. One at a time is tried from here on, the first at
	// that time, until one succeeds.
	Outage func(why *RecordError, next time.Time)
	// Suspect is called when so many processes have died in the middle of a record that it is taken for failed.
	Suspect func(record *RecordError, deaths int)
	// Stuck is called once when an input partition has had records to be read, or could not be read at all, for Config.StuckAfter, and nothing of
	// it was committed.
	Stuck func(StuckPartition)
	// Unstuck is called when a partition that was stuck moves again, has nothing more to be read, or has gone to another process. Why is empty.
	Unstuck func(StuckPartition)
	// Recovery is called when a task goes on with what is new in a partition and begins to replay what a crash has left behind there, about
	// every 5 s while it gets on, when it has not got on for half a minute, and when nothing is left: see [RecoverParallel].
	Recovery func(Recovery)
	// RecoveryLost is called when offsets that were to be replayed are not in the partition any more: no record of them will be processed.
	RecoveryLost func(topic string, partition int32, lost OffsetRange)
	// Reset is called when an input offset was out of range and Config.OutOfRange moved it.
	Reset func(topic string, partition int32, from, to int64)
}

// RestoreProgress says how far a store has been rebuilt from its changelog.
type RestoreProgress struct {
	Task      TaskID
	Role      Role
	Topic     string
	Partition int32
	Start     int64 // the offset at which this restore began
	Position  int64 // the next offset to be read
	End       int64 // where it ends
	Records   int64 // restored so far; fewer than offsets where the changelog was compacted
	Took      time.Duration
	Done      bool
}

// ETA estimates how long the rest takes, by the pace so far; 0 when done or unknown.
func (p RestoreProgress) ETA() time.Duration {
	done, left := p.Position-p.Start, p.End-p.Position
	if done <= 0 || left <= 0 {
		return 0
	}
	return time.Duration(float64(p.Took) / float64(done) * float64(left))
}

// notice reports to the listener and the log.
func (a *App) notice(n engine.Notice) {
	a.tell(n)
	a.log(n)
}

func (a *App) tell(n engine.Notice) {
	l := &a.cfg.Listener
	switch n.Kind {
	case engine.NoticeState:
		if n.State == engine.Closed && !a.ends() {
			return
		}
		a.setState(State(n.State))
		if l.State != nil {
			l.State(State(n.State))
		}
	case engine.NoticeRebalanced:
		if l.Rebalanced != nil {
			l.Rebalanced(rebalanceOf(n))
		}
	case engine.NoticeAssigned:
		if l.Assigned != nil {
			l.Assigned(n.Tasks)
		}
	case engine.NoticeLost:
		if l.Lost != nil {
			l.Lost(n.Text)
		}
	case engine.NoticeTask:
		if l.Task != nil {
			l.Task(n.Task, n.Text)
		}
	case engine.NoticeRestoreBegin, engine.NoticeRestore, engine.NoticeRestoreEnd:
		if l.Restore != nil {
			l.Restore(progressOf(n))
		}
	case engine.NoticeLearned:
		if l.Learned != nil {
			l.Learned(n.Task, n.Records, n.Took)
		}
	case engine.NoticeStalled:
		if l.Stalled != nil {
			l.Stalled(n.Task, n.Records, n.Took)
		}
	case engine.NoticePromoted:
		if l.Promoted != nil {
			l.Promoted(n.Task, n.Records, n.Took)
		}
	case engine.NoticeCleaned:
		if l.Cleaned != nil {
			l.Cleaned(n.Task)
		}
	case engine.NoticePutAside:
		if l.PutAside != nil {
			l.PutAside(n.Text)
		}
	case engine.NoticeWiped:
		if l.Wiped != nil {
			l.Wiped(n.Task, n.Part.Topic, n.Part.Partition, n.Text)
		}
	case engine.NoticeRetry:
		if l.Retry != nil {
			l.Retry(n.What, n.Err)
		}
	case engine.NoticeCommitRefused:
		if l.Retry != nil {
			l.Retry("commit of "+n.Part.String(), n.Err)
		}
	case engine.NoticeSuspended:
		var why *NoRoomError
		if l.Suspended != nil && errors.As(n.Err, &why) {
			l.Suspended(why)
		}
	case engine.NoticeResumed:
		if l.Resumed != nil {
			l.Resumed(n.Took)
		}
	case engine.NoticeFailure:
		if n.Failure != nil {
			l.tellFailure(n.Failure)
		}
	case engine.NoticePartStuck:
		if l.Stuck != nil {
			l.Stuck(stuckOf(n))
		}
	case engine.NoticePartMoves:
		if l.Unstuck != nil {
			l.Unstuck(stuckOf(n))
		}
	case engine.NoticeGap, engine.NoticeReplay, engine.NoticeReplayStalled, engine.NoticeGapClosed, engine.NoticeRangeLost:
		a.tellRecovery(n)
	case engine.NoticeReset:
		if l.Reset != nil {
			l.Reset(n.Part.Topic, n.Part.Partition, n.Position, n.End)
		}
	}
}

func progressOf(n engine.Notice) RestoreProgress {
	p := RestoreProgress{
		Task: n.Task, Role: Role(n.Role), Topic: n.Part.Topic, Partition: n.Part.Partition, Start: n.Start, Position: n.Position, End: n.End,
		Records: n.Records, Took: n.Took, Done: n.Kind == engine.NoticeRestoreEnd,
	}
	if n.Kind == engine.NoticeRestoreBegin {
		p.Start = n.Position
	}
	return p
}

// log writes one line for what an operator wants to know. Facts are fields, with one spelling each.
func (a *App) log(n engine.Notice) {
	log := a.cfg.Log
	part := []zap.Field{zap.Stringer("task", n.Task), zap.String("topic", n.Part.Topic), zap.Int32("partition", n.Part.Partition)}
	role := zap.Stringer("role", Role(n.Role))
	switch n.Kind {
	case engine.NoticeState:
		log.Info("state changed", zap.Stringer("state", State(n.State)))
	case engine.NoticeRetry:
		if !a.sayAgain(n.What) {
			return
		}
		log.Warn("failed, trying again", zap.String("what", n.What), zap.Error(n.Err))
	case engine.NoticeRebalanced:
		logRebalance(log, n)
	case engine.NoticeLost:
		log.Warn("membership lost, all tasks stopped", zap.String("reason", n.Text))
	case engine.NoticeTask:
		log.Debug("task state changed", zap.Stringer("task", n.Task), role, zap.String("state", n.Text))
	case engine.NoticeRestoreBegin:
		fail.Point("restore.begin")
		log.Info("restore begins", append(part, role, zap.Int64("offset", n.Position), zap.Int64("end", n.End))...)
	case engine.NoticeRestore:
		level := zap.InfoLevel
		if n.Role != engine.Active {
			level = zap.DebugLevel // nothing waits for it
		}
		log.Log(level, "restoring", append(part, role, zap.Int64("offset", n.Position), zap.Int64("end", n.End), zap.Int64("records", n.Records),
			zap.Duration("eta", progressOf(n).ETA()))...)
	case engine.NoticeRestoreEnd:
		fail.Point("restore.end")
		log.Info("restored", append(part, role, zap.Int64("offset", n.Position), zap.Int64("records", n.Records), zap.Duration("took", n.Took))...)
	case engine.NoticeOutdated:
		log.Warn("other topology version", zap.String("reason", n.Text), zap.Int32("version", a.cfg.TopologyVersion))
	case engine.NoticeLearned:
		log.Info("task is learned", zap.Stringer("task", n.Task), zap.Int64("lag", n.Records), zap.Duration("took", n.Took))
	case engine.NoticeStalled:
		log.Warn("learner does not come closer to the end: its disk or its brokers are slower than the task writes",
			zap.Stringer("task", n.Task), zap.Int64("lag", n.Records), zap.Duration("after", n.Took))
	case engine.NoticePromoted:
		log.Info("copy has taken its task over", zap.Stringer("task", n.Task), zap.Int64("lag", n.Records), zap.Duration("took", n.Took))
	case engine.NoticeCleaned:
		log.Info("state that nobody used was deleted", zap.Stringer("task", n.Task))
	case engine.NoticeWiped:
		log.Warn("store does not fit its changelog, it is rebuilt", append(part, zap.String("reason", n.Text))...)
	case engine.NoticeSuspended:
		log.Error("the disk is full: all tasks are suspended here, and others may take them over; all goes on by itself when there is room",
			append(roomFields(n.Err), zap.Error(n.Err))...)
	case engine.NoticeResumed:
		log.Info("there is room on the disk again: joining the group", zap.Duration("after", n.Took))
	case engine.NoticeGap, engine.NoticeReplay, engine.NoticeReplayStalled, engine.NoticeGapClosed, engine.NoticeRangeLost:
		a.logRecovery(n)
	case engine.NoticeReset:
		log.Warn("offset out of range, moved by policy", append(part, zap.Int64("offset", n.Position), zap.Int64("to", n.End))...)
	case engine.NoticeAnew:
		log.Warn("topic was deleted and made anew, it is read from its beginning", append(part, zap.Int64("committed_of_former", n.Position))...)
	case engine.NoticePartStuck:
		log.Warn("partition is stuck: it has records to be read, and nothing of it is committed",
			append(part, zap.Int64("offset", n.Position), zap.Int64("end", n.End), zap.Duration("for", n.Took), zap.String("reason", n.Text))...)
	case engine.NoticePartMoves:
		log.Info("partition is not stuck any more", append(part, zap.Int64("offset", n.Position), zap.Duration("after", n.Took))...)
	case engine.NoticeFailure:
		if n.Failure != nil {
			a.logFailure(n)
		}
	case engine.NoticeForeignWriter:
		log.Warn("somebody else wrote to our changelog; the store's position stays before it", append(part, zap.Int64("offset", n.Position), zap.Int64("next", n.End))...)
	case engine.NoticeCommitRefused:
		if !a.sayAgain("commit") {
			return
		}
		log.Warn("commit refused, trying again", append(part, zap.Error(n.Err))...)
	case engine.NoticeReleaseOverdue:
		log.Warn("task is not drained yet and stays here for this round", zap.Stringer("task", n.Task))
	case engine.NoticeStuck:
		log.Error("user call does not return, the task is given up here", zap.Stringer("task", n.Task), zap.Error(n.Err))
	}
}

// roomFields say which disk is full.
func roomFields(err error) []zap.Field {
	var why *NoRoomError
	if !errors.As(err, &why) {
		return nil
	}
	return []zap.Field{zap.String("dir", why.Dir), zap.Int64("free", why.Free)}
}

// quiet is how long a failure that is tried again is not said again: an outage is one thing, not a line per attempt.
const quiet = 10 * time.Second

// sayAgain reports whether a repeated failure is due to be logged. It runs on the goroutine of notices only.
func (a *App) sayAgain(what string) bool {
	now := time.Now()
	if now.Sub(a.said[what]) < quiet {
		return false
	}
	if a.said == nil {
		a.said = map[string]time.Time{}
	}
	a.said[what] = now
	return true
}
