package engine

import (
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// Event is what an Engine is told.
type Event interface{ engineEvent() }

type (
	// Start begins: topics are ensured, the group is joined.
	Start struct{}
	// Close ends: tasks are released and committed, the group is left. Within is the time for all of that; zero means the default.
	Close struct{ Within time.Duration }
	// Tick lets time pass.
	Tick struct{}
	// TopicsReady answers EnsureTopics. A permanent Err ends the application, a temporary one is tried again.
	TopicsReady struct {
		Partitions map[string]int32    // of all source and internal topics
		IDs        map[string][16]byte // of the same topics, where the broker tells
		Specs      []*task.Spec        // the subtopologies, where the topics of some pattern have changed; else nil
		QueueBytes int                 // bound of an input partition's queue, if it follows from the number of partitions; 0 leaves the configured one
		Err        error
		Temporary  bool
	}
	// Member passes an answer of the group's coordinator on to the member.
	Member struct{ Event group.Event }
	// OffsetsFetched answers FetchOffsets.
	OffsetsFetched struct {
		Request uint64
		Offsets map[task.TopicPartition]CommittedOffset
		Code    kcode.Code // of the whole request
		Err     error
	}
	// StoresOpened answers OpenStores with the positions of the stores, in the order of the subtopology's. Stale are those that were
	// wiped because they were of another changelog; it may be nil.
	StoresOpened struct {
		Task      task.ID
		Epoch     uint64
		Positions []int64
		Stale     []bool
		Err       error
	}
	// StoresClosed answers CloseStores.
	StoresClosed struct {
		Task  task.ID
		Epoch uint64
		Err   error
	}
	// OffsetsListed answers ListOffsets, for the partitions that are known.
	OffsetsListed struct {
		Request  uint64
		Earliest map[task.TopicPartition]int64
		End      map[task.TopicPartition]int64 // the high watermark
		Err      error                         // also of single partitions: those are asked for again
	}
	// Restored hands over a batch of a changelog.
	Restored struct {
		Source FetchSource
		Batch  *task.Batch
	}
	// Taken says that what the batch of an Apply lies in is needed no more. The write goes on, and is answered by Applied.
	Taken struct {
		Task  task.ID
		Epoch uint64
	}
	// Applied answers Apply and Wipe.
	Applied struct {
		Task  task.ID
		Epoch uint64
		Err   error
	}
	// EffectsDone says how far the sender has a task's effects acknowledged.
	EffectsDone struct{ Acked EffectsAcked }
	// TaskSealed hands over a commit of a task.
	TaskSealed struct{ Sealed *task.Sealed }
	// TaskReleased, TaskClosed and TaskFailed say what a task's owner answered.
	TaskReleased struct {
		Task    task.ID
		Epoch   uint64
		Forgone bool
	}
	TaskClosed struct {
		Task  task.ID
		Epoch uint64
	}
	// TaskNoted passes on what a task says of a record that has failed.
	TaskNoted struct {
		Task  task.ID
		Epoch uint64
		Note  task.Note
	}
	// TaskReplays says how far a task has come in a gap.
	TaskReplays struct {
		Task   task.ID
		Epoch  uint64
		Replay task.Replay
	}
	TaskFailed struct {
		Task  task.ID
		Epoch uint64
		Err   error
	}
	// TaskStuck says that a single user call of the task has run longer than the watchdog allows.
	TaskStuck struct {
		Task  task.ID
		Epoch uint64
		Err   error
	}
	// OffsetsCommitted answers CommitOffsets.
	OffsetsCommitted struct {
		Request uint64
		Codes   map[task.TopicPartition]kcode.Code
		Code    kcode.Code // of the whole request
		Err     error
	}
	// PartMoved says that a partition has to be fetched from elsewhere.
	PartMoved struct{ Lost PartLost }
	// PartStopped says that a partition cannot be read on without a decision.
	PartStopped struct{ Failed PartFailed }
	// StoreTrouble says that the database cannot be written, other than by the answer to a write: a *NoRoomError suspends all tasks, every
	// other error ends the application.
	StoreTrouble struct{ Err error }
	// DiskProbed answers ProbeDisk: how many bytes are free, of how many; -1 where nobody knows. Err is why a small file could not be written.
	DiskProbed struct {
		Free, Total int64
		Err         error
	}
	// StoresReady answers ReadyStores.
	StoresReady struct{ Err error }
	// Drain hands all tasks over to others before the end. Within is the time for that, after which the application ends all the same; zero means
	// 10 minutes.
	Drain struct{ Within time.Duration }
	// StoredKnown answers ListStored: the states on disk.
	StoredKnown struct {
		Tasks []statestore.StoredTask
		Err   error
	}
	// StoredDropped answers DropStored.
	StoredDropped struct {
		Task task.ID
		Err  error
	}
	// Heard passes a notice of a shell on to where all notices go.
	Heard struct{ Note Notice }
	// MetadataKnown answers RefreshMetadata.
	MetadataKnown struct {
		Leaders map[task.TopicPartition]Leader
		Counts  map[string]int32    // partitions of each topic that exists
		IDs     map[string][16]byte // of these topics, as far as brokers tell them
		All     bool                // those that match a pattern are among them
		Err     error
	}
)

// CommittedOffset is what the group has committed for a partition; Offset -1 means nothing.
type CommittedOffset struct {
	Offset   int64
	Metadata string
	Code     kcode.Code
}

// Leader is who leads a partition, in which epoch. Broker -1: nobody at the moment.
type Leader struct {
	Broker int32
	Epoch  int32
}

func (Start) engineEvent()            {}
func (Close) engineEvent()            {}
func (Tick) engineEvent()             {}
func (TopicsReady) engineEvent()      {}
func (Member) engineEvent()           {}
func (OffsetsFetched) engineEvent()   {}
func (StoresOpened) engineEvent()     {}
func (StoresClosed) engineEvent()     {}
func (OffsetsListed) engineEvent()    {}
func (Restored) engineEvent()         {}
func (Taken) engineEvent()            {}
func (Applied) engineEvent()          {}
func (EffectsDone) engineEvent()      {}
func (TaskSealed) engineEvent()       {}
func (TaskReleased) engineEvent()     {}
func (TaskNoted) engineEvent()        {}
func (TaskReplays) engineEvent()      {}
func (TaskClosed) engineEvent()       {}
func (TaskFailed) engineEvent()       {}
func (TaskStuck) engineEvent()        {}
func (OffsetsCommitted) engineEvent() {}
func (PartMoved) engineEvent()        {}
func (PartStopped) engineEvent()      {}
func (MetadataKnown) engineEvent()    {}
func (StoreTrouble) engineEvent()     {}
func (DiskProbed) engineEvent()       {}
func (StoresReady) engineEvent()      {}
func (Drain) engineEvent()            {}
func (StoredKnown) engineEvent()      {}
func (StoredDropped) engineEvent()    {}
func (Heard) engineEvent()            {}

// Action is what an Engine wants done.
type Action interface{ engineAction() }

type (
	// EnsureTopics checks the source topics and makes or validates the internal ones.
	EnsureTopics struct{}
	// MemberAction carries out an action of the group's member: a request, a disconnect, a wake-up.
	MemberAction struct{ Action group.Action }
	// FetchOffsets asks the group's coordinator for committed offsets, stable ones only (KIP-447's RequireStable).
	FetchOffsets struct {
		Request     uint64
		Coordinator string // its address
		Parts       []task.TopicPartition
	}
	// OpenStores opens the stores of a task; CloseStores closes them. Their Epoch is that of the life which they are opened for; everything that
	// is done to the stores, and everything that is read of their changelogs, names it, whatever owners the task has meanwhile.
	OpenStores struct {
		Task   task.ID
		Epoch  uint64
		Stores []statestore.Spec
	}
	CloseStores struct {
		Task  task.ID
		Epoch uint64
	}
	// ListOffsets asks for the log start and the high watermark.
	ListOffsets struct {
		Request uint64
		Parts   []task.TopicPartition
	}
	// Fetch changes what is fetched from a broker.
	Fetch struct {
		Purpose Purpose
		Broker  int32
		Event   PlannerEvent // FetchAdd, FetchRemove, FetchBound, FetchPause or FetchConsumed
	}
	// StartTask makes the task's owner and runs it.
	StartTask struct {
		Task       task.ID
		Epoch      uint64
		Stores     uint64          // the epoch that its stores were opened under
		Spec       *task.Spec      // what the task was opened for
		Positions  []int64         // next offset per input; negative where its topic has no partition for the task
		TopicIDs   []retry.TopicID // per input; zero where it is not known
		Committed  []retry.Metadata
		Splits     []retry.Split // per input; nil where there is none
		StreamTime int64
		Refused    []task.Refusal // records of earlier lives of the task here
	}
	// ToTask passes an event on to a task's owner.
	ToTask struct {
		Task  task.ID
		Epoch uint64
		Event task.Event
	}
	// Apply writes a batch to a task's stores; Bulk takes the path of sorted tables.
	Apply struct {
		Task  task.ID
		Epoch uint64
		Batch *statestore.Batch
		Bulk  bool
	}
	// Wipe empties one store of a task before it is restored from the beginning.
	Wipe struct {
		Task  task.ID
		Epoch uint64
		Store int
	}
	// Recycle gives back fetched batches of a changelog that nothing refers to any more: their rows are written.
	Recycle struct{ Batches []*task.Batch }
	// FreeReaders lets go of what the last owner of a task read its stores with; they stay open.
	FreeReaders struct {
		Task  task.ID
		Epoch uint64
	}
	// ListStored asks for the states on disk whose tasks are not open.
	ListStored struct{}
	// DropStored deletes the state of a task that is not open.
	DropStored struct{ Task task.ID }
	// ProbeDisk asks whether there is room for the stores.
	ProbeDisk struct{}
	// ReadyStores asks for a database that takes writes: one that broke down is opened again. No task has stores open.
	ReadyStores struct{}
	// CommitOffsets commits input offsets under the applied generation.
	CommitOffsets struct {
		Request     uint64
		Coordinator string // its address
		MemberID    string
		Generation  int32
		Offsets     []task.InputOffset
	}
	// PurgeRecords deletes the records of repartition topics below these offsets (DeleteRecords).
	PurgeRecords struct {
		Before map[task.TopicPartition]int64
	}
	// RefreshMetadata asks for leaders and partition counts of these topics and, with All, of those that match a pattern.
	RefreshMetadata struct {
		Topics []string
		All    bool
	}
	// ToSender passes an event on to the sender.
	ToSender struct{ Event SenderEvent }
	// Wake asks for a Tick at this time.
	Wake struct{ At time.Time }
	// Note reports something for the log, the listener and the trace.
	Note struct{ Note Notice }
	// Done ends the application, with the error that ended it or nil.
	Done struct{ Err error }
)

func (EnsureTopics) engineAction()    {}
func (MemberAction) engineAction()    {}
func (FetchOffsets) engineAction()    {}
func (OpenStores) engineAction()      {}
func (CloseStores) engineAction()     {}
func (ListOffsets) engineAction()     {}
func (Fetch) engineAction()           {}
func (StartTask) engineAction()       {}
func (ToTask) engineAction()          {}
func (Apply) engineAction()           {}
func (Wipe) engineAction()            {}
func (Recycle) engineAction()         {}
func (FreeReaders) engineAction()     {}
func (ListStored) engineAction()      {}
func (DropStored) engineAction()      {}
func (ProbeDisk) engineAction()       {}
func (ReadyStores) engineAction()     {}
func (CommitOffsets) engineAction()   {}
func (PurgeRecords) engineAction()    {}
func (RefreshMetadata) engineAction() {}
func (ToSender) engineAction()        {}
func (Wake) engineAction()            {}
func (Note) engineAction()            {}
func (Done) engineAction()            {}

// Purpose says what a fetch is for. Each purpose has connections of its own, so that a restore never delays the main path.
type Purpose uint8

const (
	Input   Purpose = iota // records for a running task
	Restore                // a changelog, to rebuild a store
	Recover                // records of a gap, for the second path of a running task
)

func (p Purpose) String() string {
	return [...]string{"input", "restore", "recover"}[p]
}

// NoticeKind says what a Notice is about.
type NoticeKind string

// The kinds of Notice.
const (
	NoticeState          NoticeKind = "state"           // the application's state changed: State
	NoticeRetry          NoticeKind = "retry"           // something failed that is tried again: What, Err
	NoticeAssigned       NoticeKind = "assigned"        // a rebalance ended: Tasks run here, Generation, Text
	NoticeLost           NoticeKind = "lost"            // the membership or its lease ended: Text
	NoticeTask           NoticeKind = "task"            // a task changed its state: Task, Text
	NoticeRestoreBegin   NoticeKind = "restore-begin"   // Task, Part, Position, End
	NoticeRestore        NoticeKind = "restore"         // progress: Task, Part, Start, Position, End, Records
	NoticeRestoreEnd     NoticeKind = "restore-end"     // Task, Part, Records, Took
	NoticeMetadata       NoticeKind = "metadata"        // what a commit says besides its offset cannot be read, which costs nothing but work done again: Task, Part, Position, Err
	NoticeFailure        NoticeKind = "failure"         // what becomes of a record that has failed: Task, Failure
	NoticeAnew           NoticeKind = "anew"            // the topic of an input was deleted and made anew, and is read from its beginning: Task, Part, Position (committed of the former)
	NoticeWiped          NoticeKind = "wiped"           // a store did not fit its changelog and is rebuilt: Task, Part, Position, Text
	NoticeReset          NoticeKind = "reset"           // an input offset was out of range and the policy moved it: Part, Position, End
	NoticeForeignWriter  NoticeKind = "foreign-writer"  // somebody else wrote to our changelog: Task, Part, Position, End
	NoticeCommitRefused  NoticeKind = "commit-refused"  // a commit was refused and is tried again: Part, Err
	NoticeReleaseOverdue NoticeKind = "release-overdue" // a task missed the budget of a release and stays claimed: Task
	NoticeStuck          NoticeKind = "stuck"           // a user call outlasted the watchdog: Task, Err
	NoticePartStuck      NoticeKind = "part-stuck"      // an input partition has records and does not move: Task, Part, Position, End, Took (for so long), Text (why)
	NoticePartMoves      NoticeKind = "part-moves"      // it moves again, has nothing more to be read, or has gone to another process: Task, Part, Position, Took
	NoticePutAside       NoticeKind = "put aside"       // the state was damaged: Text, where it lies now
	NoticeSuspended      NoticeKind = "suspended"       // the disk is full, all tasks end: Err, a *NoRoomError
	NoticeResumed        NoticeKind = "resumed"         // there is room again: Took
	NoticeRebalanced     NoticeKind = "rebalanced"      // a rebalance is over: Generation, Text (why), Tasks run here, Took, Paused, Moves, Leader, Unassigned, What (why a plan is degraded)
	NoticeOutdated       NoticeKind = "outdated"        // the group runs another form of the topology: Text, what to do
	NoticeLearned        NoticeKind = "learned"         // a learner is ready: Task, Took, Records (its lag)
	NoticeStalled        NoticeKind = "stalled"         // a learner does not get closer to the end: Task, Took, Records (its lag)
	NoticePromoted       NoticeKind = "promoted"        // a copy has become the owner: Task, Took, Records (what it lacked)
	NoticeGap            NoticeKind = "gap"             // a task goes on at the log's end, or a gap that was open is replayed further: Task, Part, Start, Position, End (where the main path begins), Records (open)
	NoticeReplay         NoticeKind = "replay"          // progress in a gap, at most every 5 s: as NoticeGap, Took
	NoticeReplayStalled  NoticeKind = "replay-stalled"  // a gap has not been made smaller for 30 s: as NoticeReplay
	NoticeGapClosed      NoticeKind = "gap-closed"      // all of a gap is processed: as NoticeReplay
	NoticeRangeLost      NoticeKind = "range-lost"      // the log does not have records of a gap any more: Task, Part, Start, End, Records, Text
	NoticeCleaned        NoticeKind = "cleaned"         // the state of a task that nobody used was deleted: Task
)

// Notice is something worth reporting. Only the fields that its kind names are set.
type Notice struct {
	Kind       NoticeKind
	Role       Role
	State      State
	Task       task.ID
	Part       task.TopicPartition
	Tasks      []task.ID
	Generation int32
	What       string
	Text       string
	Start      int64
	Position   int64
	End        int64
	Records    int64
	Took       time.Duration
	Err        error
	Paused     []Pause
	Moves      []assignor.Move
	Unassigned []task.ID
	Failure    *task.Note
	Leader     bool // Moves are those of the whole group, and Unassigned is known
}

// Pause is a task that stood still in a rebalance. Moved: it went to somebody else in it.
type Pause struct {
	Task  task.ID
	For   time.Duration
	Moved bool
}
