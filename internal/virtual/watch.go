package virtual

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// Watcher is told what happens in a process, and may interfere. Unwatched does neither: embed it.
type Watcher interface {
	// Event is called before the core loop takes an event; Stepped after it has carried out what came of it.
	Event(ev engine.Event)
	Stepped()
	// Action is called before an action of the core loop is carried out. True takes it over: then it is not, unless the watcher calls Carry.
	Action(a engine.Action) bool
	// SenderAction is called before an action of the sender is carried out.
	SenderAction(a engine.SenderAction)
	// Exited is called when the application has ended by itself. The watcher ends the process.
	Exited(err error)

	// TaskStarts is called when a task begins, with its stores, nil if it has none. Its owner is made later.
	TaskStarts(t *Task, a engine.StartTask, s statestore.TaskStores)
	// TaskEvent is called before a task takes an event, TaskStepped after it has and before what came of it is carried out: nothing is if the
	// process has ended.
	TaskEvent(t *Task, ev task.Event)
	TaskStepped(t *Task)
	// TaskAction is called before an action of a task is carried out.
	TaskAction(t *Task, a task.Action)

	// StoresOpened is called when the stores of a task were opened, Applied when a batch was written to them.
	StoresOpened(a engine.OpenStores)
	Applied(a engine.Apply, s statestore.TaskStores)
	// Refuses is the error that a write to the disk fails with, nil for none. NoRoom is why the disk has no room.
	Refuses() error
	NoRoom() error
	// OnDisk lets a write of a task come about, now or later.
	OnDisk(id task.ID, write func())
	// SlowWrite is told of a write that takes long.
	SlowWrite(took time.Duration)
	// HoldsRead is for how long the next read of a changelog is held up.
	HoldsRead() time.Duration
	// Sends is called before a request leaves. True keeps it from doing so.
	Sends(l *Link, req modelbroker.Request) bool
}

// Unwatched watches nothing.
type Unwatched struct{}

var _ Watcher = Unwatched{}

func (Unwatched) Event(engine.Event)                                        {}
func (Unwatched) Stepped()                                                  {}
func (Unwatched) Action(engine.Action) bool                                 { return false }
func (Unwatched) SenderAction(engine.SenderAction)                          {}
func (Unwatched) Exited(error)                                              {}
func (Unwatched) TaskStarts(*Task, engine.StartTask, statestore.TaskStores) {}
func (Unwatched) TaskEvent(*Task, task.Event)                               {}
func (Unwatched) TaskStepped(*Task)                                         {}
func (Unwatched) TaskAction(*Task, task.Action)                             {}
func (Unwatched) StoresOpened(engine.OpenStores)                            {}
func (Unwatched) Applied(engine.Apply, statestore.TaskStores)               {}
func (Unwatched) Refuses() error                                            { return nil }
func (Unwatched) NoRoom() error                                             { return nil }
func (Unwatched) OnDisk(_ task.ID, write func())                            { write() }
func (Unwatched) SlowWrite(time.Duration)                                   {}
func (Unwatched) HoldsRead() time.Duration                                  { return 0 }
func (Unwatched) Sends(*Link, modelbroker.Request) bool                     { return false }

// Way is what becomes of a message.
type Way uint8

// The ways of a message.
const (
	Sent Way = iota + 1 // a request leaves
	Got                 // an answer is there
	Lost                // it is lost on its way
)

// Trouble is something bad that has happened to a message.
type Trouble uint8

// The kinds of trouble.
const (
	LostRequest Trouble = iota // lost with its connection before the broker had it
	LostAnswer                 // lost after the broker had carried its request out
	LateRequest                // it arrived when its sender had given it up
	LateAnswer                 // it came when its request had been given up
	Reordered                  // an answer overtook that to a request sent before, on another connection
	CutOut                     // a message to a broker waited for a partition of the network to heal
	CutIn                      // a message from a broker did
)

// Observer is told what happens in the network. Unobserved is for those who do not care.
type Observer interface {
	// Message is told what becomes of a request or an answer.
	Message(l *Link, way Way, msg any)
	// Request sees a request at the moment at which it is served, Answer its answer at the moment at which it is given, before it may be lost.
	Request(c *Call)
	Answer(c *Call, r modelbroker.Response)
	Saw(t Trouble)
}

// Unobserved observes nothing.
type Unobserved struct{}

var _ Observer = Unobserved{}

func (Unobserved) Message(*Link, Way, any)            {}
func (Unobserved) Request(*Call)                      {}
func (Unobserved) Answer(*Call, modelbroker.Response) {}
func (Unobserved) Saw(Trouble)                        {}
