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
	kinds
)

var kindNames = [kinds]string{
	"lost request", "lost answer", "late request", "late answer", "retried batch", "reordered answers", "cut connections", "broker crash",
	"broker stop", "leader move", "coordinator move", "coordinator loading", "round forgotten", "pause", "lease over", "member evicted", "crash",
	"crash, directory lost", "unsynced writes lost", "unsynced writes kept", "close", "close, directory lost", "slow write", "failed write",
	"compaction", "truncation", "store outdated", "partition, outgoing", "partition, incoming", "clock forward", "clock back",
	"transaction marker", "unstable offset", "stranger's batch", "stranger fenced", "stranger's output", "hole", "hole at release", "disk full", "disk has room again",
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
