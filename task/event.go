package task

import "time"

// Event is what happened to a task; Owner.Step takes it.
type Event interface{ ownerEvent() }

type (
	// Fetched brings a batch of one input. The task owns the batch from here.
	Fetched struct {
		Input int
		Batch *Batch
	}
	// Acked says that the broker has all records of all Effects up to this sequence.
	Acked struct{ Seq uint64 }
	// Work lets the task process records: as many as Records says, or where that is 0 as many as fit into Max (default 5 ms) by a budget
	// that learns from Took, the time that the previous Work step took (0: not measured).
	Work struct {
		Max     time.Duration
		Records int
		Took    time.Duration
	}
	// Tick lets time pass: punctuation, linger, commit interval.
	Tick struct{}
	// Commit asks for a commit now, if there is anything to commit.
	Commit struct{}
	// Committed is the result of the outstanding Seal. With a nil Err its rows are in the stores already.
	Committed struct{ Err error }
	// Release makes the task take nothing more and commit the rest. It is answered with Released.
	Release struct{}
	// Resume takes a Release back. If that has not been answered yet it is now, and the task goes on. What was queued is still there.
	Resume struct{}
	// Lost says that the task is somebody else's: uncommitted state is dropped.
	Lost struct{}
	// Rewrite makes the task write the present rows of these keys to the changelog again, tombstones where there are none, and commit:
	// somebody else has written to it. The commit that covers it counts it in Sealed.Rewrites. A task that was released is not until then; who
	// wants to know when asks with another Release.
	Rewrite struct {
		Store int
		Keys  [][]byte
	}
	// Trimmed says that the partition of an input does not have anything below First any more which the task has not been given for its second
	// path: retention has overtaken it.
	Trimmed struct {
		Input int
		First int64
	}
	// Ask calls a function with the owner, between two steps of it: for whoever wants to know something.
	Ask struct{ Answer func(*Owner) }
	// Close ends the task without a commit. It is answered with Closed.
	Close struct{}
)

func (Fetched) ownerEvent()   {}
func (Acked) ownerEvent()     {}
func (Work) ownerEvent()      {}
func (Tick) ownerEvent()      {}
func (Commit) ownerEvent()    {}
func (Committed) ownerEvent() {}
func (Release) ownerEvent()   {}
func (Resume) ownerEvent()    {}
func (Lost) ownerEvent()      {}
func (Rewrite) ownerEvent()   {}
func (Trimmed) ownerEvent()   {}
func (Ask) ownerEvent()       {}
func (Close) ownerEvent()     {}

// Action is what a task wants done; Owner.Step returns them in the order in which they are to be started.
type Action interface{ ownerAction() }

type (
	// Send hands effects to the sender, in order of their sequence.
	Send struct {
		*Effects
		Second bool // with the second leg of a commit
	}
	// Seal hands a cut to the committer. It comes after the Send of everything it covers and is answered with Committed.
	Seal struct{ *Sealed }
	// Consumed gives back queue space of one input, and the batches that are finished: nothing refers to their memory any more.
	Consumed struct {
		Input   int
		Bytes   int
		Batches []*Batch // valid until the next Step
	}
	// Replayed says how far the second path of an input has come.
	Replayed struct{ Replay }
	// Wake asks for a Tick at that time. It replaces the time asked for before.
	Wake struct{ At time.Time }
	// Noted tells of a failure.
	Noted struct{ Note }
	// Released answers Release, each once: everything taken is committed, unless a Failed precedes it or a Resume has taken it back.
	// Forgone says that not everything was: a row that is sent at the commit has failed again and again. The task cannot be resumed then.
	Released struct{ Forgone bool }
	// Closed answers Close.
	Closed struct{}
	// Failed says that the task has stopped. What precedes the failure is committed, as far as it can be.
	Failed struct{ Err error }
)

func (Send) ownerAction()     {}
func (Seal) ownerAction()     {}
func (Consumed) ownerAction() {}
func (Replayed) ownerAction() {}
func (Wake) ownerAction()     {}
func (Noted) ownerAction()    {}
func (Released) ownerAction() {}
func (Closed) ownerAction()   {}
func (Failed) ownerAction()   {}
