package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

var errDiskFull = errors.New("no space left on device")

// waitingWrite is a write that the database holds up until there is room.
type waitingWrite struct {
	task task.ID
	f    func()
}

func (h *host) noRoom() *engine.NoRoomError {
	return &engine.NoRoomError{Dir: "/state", Free: 0, Err: errDiskFull}
}

// fillDisk fills the disk of a machine for a while. As with a database that holds rows in memory before it writes them, some writes still come
// about, some fail, and some wait; and it says by itself, now or later, that it cannot write.
func (w *world) fillDisk() {
	h := w.someHost()
	if h.full {
		return
	}
	w.fault("disk of %s is full", h.name())
	h.full = true
	w.After(w.UpTo(3*time.Second), nil, h.complain)
	w.After(w.UpTo(10*time.Second), nil, h.makeRoom)
}

// complain tells of a flush that failed, again and again.
func (h *host) complain() {
	if !h.full {
		return
	}
	if h.p != nil {
		h.p.troubled = true
		h.p.Tell(engine.StoreTrouble{Err: h.noRoom()})
	}
	h.w.After(time.Second, nil, h.complain)
}

// makeRoom lets all go on that waits, in its order.
func (h *host) makeRoom() {
	if !h.full {
		return
	}
	h.w.fault("disk of %s has room", h.name())
	h.full = false
	if h.p == nil {
		return
	}
	waiting := h.p.waiting
	h.p.waiting = nil
	for _, x := range waiting {
		x.f()
	}
}

// OnDisk lets a write come about, or wait: behind others of its task, or for room.
func (p *process) OnDisk(id task.ID, f func()) {
	for _, x := range p.waiting {
		if x.task == id {
			p.waiting = append(p.waiting, waitingWrite{id, f})
			return
		}
	}
	if p.host.full && p.w.Rand.IntN(3) == 0 {
		p.waiting = append(p.waiting, waitingWrite{id, f})
		return
	}
	f()
}

// Refuses says that a write fails: because the disk is broken, or for want of room.
func (p *process) Refuses() error {
	if h := p.host; h.fails > 0 {
		h.fails--
		return errDisk
	}
	if p.host.full && p.w.Rand.IntN(2) == 0 {
		p.troubled = true
		return p.host.noRoom()
	}
	return nil
}

// NoRoom is why a full disk takes nothing.
func (p *process) NoRoom() error {
	if p.host.full {
		return p.host.noRoom()
	}
	return nil
}

// suspension follows what a process says of its disk.
func (o *oracle) suspension(p *process, kind engine.NoticeKind) {
	switch kind {
	case engine.NoticeSuspended:
		o.w.saw(DiskFull)
		p.suspended = true
	case engine.NoticeResumed:
		o.w.saw(Resumed)
		p.suspended = false
	}
}

// leaves holds that whoever leaves the group for want of room runs nothing any more: others take over at once.
func (o *oracle) leaves(p *process, a group.Action) {
	if _, ok := a.(group.SendLeave); !ok || !p.suspended {
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(o.runs), task.ID.Compare) {
		if slices.Contains(o.runs[id], p) {
			o.w.violatedTask(id, "%s leaves the group while it runs task %v", p.name, id)
		}
	}
}
