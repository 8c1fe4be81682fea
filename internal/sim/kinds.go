package sim

import "fmt"

// Kind is something bad that a run can hold. It counts where it had an effect, not where it was planned: a tally over many runs says whether
// they tested what they are for.
type Kind uint8

// The kinds of trouble.
const (
	LostRequest        Kind = iota // lost with its connection before the broker had it
	LostAnswer                     // lost after the broker had carried its request out
	LateRequest                    // it arrived when its sender had given it up
	LateAnswer                     // it came when its request had been given up
	Retried                        // a batch was sent again that was in the log already
	Reordered                      // an answer overtook that to a request sent before, on another connection
	CutLinks                       // all connections of a process at once
	BrokerCrashed                  // and what it led had no leader for a while
	BrokerStopped                  // cleanly
	LeaderMoved                    // somebody asked a broker that did not lead the partition any more
	CoordinatorMoved               // somebody asked a broker that did not coordinate the group any more
	CoordinatorLoading             // it coordinates the group, and does not know it yet
	RoundForgotten                 // a rebalance that was under way
	Paused                         // a process, for less than its session
	LeaseOver                      // a process found out that its membership or its lease was over
	Evicted                        // an operator removed a member that was running tasks
	Crashed                        // a process; its directory stayed
	CrashedWiped                   // a process, with its directory
	SuffixLost                     // a crash took writes back that were not synced
	SuffixKept                     // a crash left writes of the time since the last timed flush
	Closed                         // a process, cleanly
	ClosedWiped                    // and its directory was removed
	SlowWrite                      // to a store, of more than half a second
	FailedWrite                    // to a store; it ended the process
	Compacted                      // records of a changelog went away
	Truncated                      // the beginning of a changelog went away
	Outdated                       // a store did not fit its changelog any more and was rebuilt
	CutOut                         // a message to a broker waited for a partition of the network to heal
	CutIn                          // a message from a broker did
	ClockForward                   // the clock of a host was put forward
	ClockBack                      // the clock of a host was put back
	Marker                         // a transaction marker: an offset without a record
	UnstableOffset                 // somebody asked for a committed offset that a transaction held
	Stranger                       // a batch of one who does not run the task any more went into a changelog
	StrangerFenced                 // a broker refused one
	StrangerOut                    // a batch of one who does not run the task any more went into the output
	Hole                           // an owner found a stranger's records in its changelog
	HoleAtRelease                  // and was being released when it did
	DiskFull                       // a process let its tasks go for want of room
	Resumed                        // and came back
	Grew                           // the group, by a process
	Drained                        // a process was asked to hand everything over and end
	Shrank                         // a process ended, and does not come back
	Rolled                         // a process was restarted, as all others were
	Upgraded                       // with another version of the program
	KilledLeader                   // the leader of the group died
	KilledLearner                  // a process that learned a task
	KilledOwner                    // a process whose task was learned
	LostStandby                    // a process died, and its directory with standbys was lost
	MovedAmid                      // the coordinator moved while tasks were being learned
	SlowReads                      // what a process read of a changelog came slowly
	StuckReads                     // or not at all, for a while
	Stalled                        // a learner did not get any closer
	BoardLost                      // a request to the readiness board had no effect
	BoardLate                      // or had it late
	Learned                        // a learner was ready
	Promoted                       // a copy became the owner
	HandedOver                     // a task was released, and ran at another process then
	Needless                       // a task was released, and was resumed by the same process
	Overdue                        // a task was not released in time
	StandbyTook                    // a standby was promoted
	Demoted                        // an owner became a standby
	ColdRestore                    // an owner had to restore what it was to run
	Cleaned                        // the state of a task that nobody used was deleted
	RecordFailed                   // the application could not count a record
	RecordStopped                  // a record that failed ended its application, as the policy says
	RecordKilled                   // a record ended the process with it
	Outage                         // a record met an outage of what the application depends on
	RecordParked                   // a record was put aside
	RecordRecovered                // one that had been put aside was counted
	RecordDead                     // a dead letter was written
	CrashDead                      // and the record had killed processes
	RecordAsleep                   // a record had been put aside and was read again
	BreakerOpened                  // a task took records for an outage
	TwoPaths                       // a task went on behind a gap
	GapOfGaps                      // of which a part was left by another gap, or by workers
	GapClosed                      // all of a gap was processed
	Retained                       // retention took records of a gap that a second path had not taken yet
	RangeLost                      // a task has told of records that retention took from its second path
	Reset                          // one has told of those that it took from its only path
	RecordRefused                  // a broker refused what came of a record that was done
	kinds
)

var kindNames = [kinds]string{
	"lost request", "lost answer", "late request", "late answer", "retried batch", "reordered answers", "cut connections", "broker crash",
	"broker stop", "leader move", "coordinator move", "coordinator loading", "round forgotten", "pause", "lease over", "member evicted", "crash",
	"crash, directory lost", "unsynced writes lost", "unsynced writes kept", "close", "close, directory lost", "slow write", "failed write",
	"compaction", "truncation", "store outdated", "partition, outgoing", "partition, incoming", "clock forward", "clock back",
	"transaction marker", "unstable offset", "stranger's batch", "stranger fenced", "stranger's output", "hole", "hole at release", "disk full", "disk has room again",
	"process added", "drain", "scale-in", "rolling restart", "upgrade", "leader killed", "learner killed", "learned owner killed", "standby's directory lost",
	"coordinator moved amid a move", "slow reads of a changelog", "stuck reads of a changelog", "learner stalled", "board request lost", "board request late",
	"task learned", "copy promoted", "task handed over", "needless pause", "release overdue", "standby took over", "owner became standby",
	"cold restore", "state cleaned", "record failed", "record stopped its application", "record killed a process", "outage", "record put aside", "record recovered", "dead letter",
	"dead letter of a killer", "record put aside and read again", "breaker opened", "gap", "gap of gaps", "gap closed", "retention overtook a replay",
	"range lost", "range lost on one path", "result refused",
}

func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Kinds lists all kinds of trouble.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Tally counts by kind.
type Tally [kinds]int

// Add adds the counts of another tally.
func (t *Tally) Add(o Tally) {
	for i, n := range o {
		t[i] += n
	}
}

func (w *world) saw(k Kind) { w.seen[k]++ }
