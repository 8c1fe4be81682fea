package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/group"
)

// suspension is what a full disk leads to. All tasks of the process end, those without stores as well: the member leaves the group, so that
// others take them over, and a member that is not there can have none.
//
//	full ─→ drain ─→ leave the group ─→ probe ⇄ wait ─→ stores ready ─→ (Starting, and join again)
//
// A task drains as for any release; what its disk does not take is given up. The store is behind its changelog then, which is always right.
type suspension struct {
	full     bool // from the first sign of a full disk until everything begins anew
	why      *NoRoomError
	since    time.Time
	drainBy  time.Time // whoever has not drained by then is given up
	probing  bool      // ProbeDisk is on the way
	probeAt  time.Time
	tries    int  // probes that found no room, in this suspension and those right before it
	room     bool // the last probe found some
	readying bool // ReadyStores is on the way
	over     time.Time
	again    int // suspensions that came right after the one before
}

const (
	drainTime   = 5 * time.Second  // to commit what is done; a blocked disk must not keep others from taking over
	firstProbe  = time.Second      // doubled from probe to probe
	slowestWait = 15 * time.Second // between two probes
	calmTime    = time.Minute      // without a full disk, after which the next one is none of the last
	roomEnough  = 64 << 20         // bytes: the memtables that wait to be flushed
)

// noRoom returns why a store could not be written if that is for want of room.
func noRoom(err error) *NoRoomError {
	var full *NoRoomError
	errors.As(err, &full)
	return full
}

// stopping says that all tasks end.
func (e *Engine) stopping() bool { return e.state == Closing || e.state == Suspended }

// storeFull begins a suspension. An end that is under way goes on, but no longer waits for the disk.
func (e *Engine) storeFull(why *NoRoomError) {
	if e.state == Created || e.state == Closed || e.disk.full {
		return
	}
	d := &e.disk
	if d.over.IsZero() || e.now.Sub(d.over) >= calmTime {
		d.tries, d.again = 0, 0
	} else {
		d.again++
	}
	*d = suspension{full: true, why: why, since: e.now, drainBy: e.now.Add(drainTime), tries: d.tries, again: d.again}
	if e.state == Closing {
		return
	}
	e.note(Notice{Kind: NoticeSuspended, Err: why})
	e.setState(Suspended)
	for _, l := range slices.Clone(e.order) {
		switch l.state {
		case lifeRunning:
			e.release(l)
		case lifeOpening, lifeRestoring, lifeFollowing, lifeReleased:
			e.closeLife(l)
		}
	}
}

// storeFailed deals with an error of a task's stores, after which nothing more can be written for this life.
func (e *Engine) storeFailed(l *life, op string, err error) {
	if why := noRoom(err); why != nil {
		e.storeFull(why)
		return
	}
	e.fail(&StoreError{Task: l.id, Op: op, Dir: e.cfg.StateDir, Err: err})
}

// settleDrain gives up what the disk, or a user's function, has held up for too long.
func (e *Engine) settleDrain() {
	for _, l := range slices.Clone(e.order) {
		switch {
		case !e.disk.full || l.state != lifeReleasing || l.stuck:
		case e.now.Before(e.disk.drainBy):
			e.wakeAt(e.disk.drainBy)
		default:
			e.loseLife(l)
		}
	}
}

// onlyDisk says that nothing of a life is left but writes to a disk that takes none.
func (e *Engine) onlyDisk(l *life) bool { return e.disk.full && l.state == lifeClosing && !l.owned }

// settleSuspended leaves the group when no task can process any more, and then waits for room.
func (e *Engine) settleSuspended() {
	for _, l := range slices.Clone(e.order) {
		if l.state == lifeReleased {
			e.closeLife(l)
		}
	}
	if slices.ContainsFunc(e.order, func(l *life) bool { return !l.stuck && !e.onlyDisk(l) }) {
		return
	}
	if !e.left {
		e.left = true
		e.step(group.Stop{})
	}
	if e.parted {
		e.awaitRoom()
	}
}

// leftGroup is called when the goodbye was answered.
func (e *Engine) leftGroup() {
	if e.state != Suspended {
		e.finish()
		return
	}
	e.parted, e.assigned, e.prepare = true, false, nil
	e.opens, e.board = opening{}, board{} // whatever is on the way is answered to nobody
	e.committer.drop()
	e.do(ToSender{Event: DropAll{Epoch: e.epochs}})
	e.disk.probeAt = e.now.Add(e.disk.wait())
}

func (d *suspension) wait() time.Duration { return ProbeAfter(d.tries) }

// ProbeAfter is how long to wait for room on a disk that has been looked at so many times in vain.
func ProbeAfter(tries int) time.Duration { return min(firstProbe<<min(tries, 10), slowestWait) }

// awaitRoom probes until there is room. Then the writes that were held up end by themselves, and when they have, the stores are made ready.
func (e *Engine) awaitRoom() {
	d := &e.disk
	switch {
	case d.probing || d.readying:
	case !d.room && e.now.Before(d.probeAt):
		e.wakeAt(d.probeAt)
	case !d.room:
		d.probing = true
		e.do(ProbeDisk{})
	case !slices.ContainsFunc(e.order, func(l *life) bool { return !l.stuck }):
		d.readying = true
		e.do(ReadyStores{})
	}
}

// noRoomYet waits longer than the time before.
func (e *Engine) noRoomYet() {
	e.disk.room = false
	e.disk.tries++
	e.disk.probeAt = e.now.Add(e.disk.wait())
}

func (e *Engine) diskProbed(ev DiskProbed) {
	if !e.disk.probing {
		return
	}
	e.disk.probing = false
	switch {
	case ev.Err == nil && (ev.Free < 0 || ev.Free >= e.disk.enough(ev.Total)):
		e.disk.room = true
	case ev.Err == nil || noRoom(ev.Err) != nil:
		e.noRoomYet()
	default:
		e.fail(&StoreError{Op: "probe", Dir: e.cfg.StateDir, Err: ev.Err})
	}
}

// enough is how much has to be free, on a disk of that size. A disk that was full again soon after there was as much needs more: a compaction
// may take more room than what waits to be flushed.
func (d *suspension) enough(total int64) int64 {
	n := min(roomEnough, total/10)
	return max(min(n<<min(d.again, 10), total/2), n)
}

func (e *Engine) storesReady(ev StoresReady) {
	if !e.disk.readying {
		return
	}
	e.disk.readying = false
	switch {
	case ev.Err == nil:
		e.resumeAll()
	case noRoom(ev.Err) != nil:
		e.noRoomYet()
	default:
		e.fail(&StoreError{Op: "reopen", Dir: e.cfg.StateDir, Err: ev.Err})
	}
}

// resumeAll begins anew, from the topics on: it may have been long.
func (e *Engine) resumeAll() {
	d := &e.disk
	e.note(Notice{Kind: NoticeResumed, Took: e.now.Sub(d.since)})
	*d = suspension{tries: d.tries, again: d.again, over: e.now}
	e.left, e.parted, e.grounded, e.startTry = false, false, false, 0
	e.setState(Starting)
	if !e.ensuring {
		e.ensure()
	}
}

// storeTrouble deals with an error of the database that belongs to no task's write.
func (e *Engine) storeTrouble(err error) {
	if why := noRoom(err); why != nil {
		e.storeFull(why)
		return
	}
	if e.state != Closing {
		e.fail(&StoreError{Op: "flush", Dir: e.cfg.StateDir, Err: err})
	}
}

// fullForTask ends a life whose task has failed over a full disk. Everything else that a task fails with is not its business.
func (e *Engine) fullForTask(ev TaskFailed, l *life) bool {
	why := noRoom(ev.Err)
	if why == nil {
		return false
	}
	e.storeFull(why)
	e.loseLife(l)
	return true
}

// writeFailed ends what a write that failed belongs to. For want of room the life is given up: its offsets are committed, its store is behind.
// Without its last rows it must process nothing more, as it would read older ones.
func (e *Engine) writeFailed(l *life, err error) {
	full := noRoom(err) != nil
	if !full && l.sealed != nil {
		e.committed(l, &StoreError{Task: l.id, Op: "write", Dir: e.cfg.StateDir, Err: err})
	}
	e.storeFailed(l, "write", err)
	if full {
		e.loseLife(l)
	}
}
