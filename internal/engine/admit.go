package engine

import (
	"time"
	"unsafe"

	"github.com/understudy-streams/understudy/statestore"
)

// Stores that are restored at once share what is read ahead of them: few large tables for each cost a third less than many small ones, which
// have to be merged later. So those with the least to read begin, and the others wait.
const (
	maxRestores    = 32        // that read at once
	recordEstimate = 512       // bytes of a record whose size is not known
	leastRoom      = 256 << 10 // counted for a restore
	leastBound     = 8 << 20   // of what a restore may really hold, should its records be larger than estimated
	stalledAfter   = time.Second
)

const changeBytes = int(unsafe.Sizeof(statestore.Change{}))

// restores lets restores begin.
type restores struct {
	waiting bool                // one may wait
	heard   map[int32]time.Time // by broker: when a restore was last brought something from there
}

// heardOf notes that a restore was brought something.
func (e *Engine) heardOf(l *life, p *restorePart) {
	p.heard = e.now
	if r := e.routes.all[l.source(p)]; r != nil && r.broker >= 0 {
		e.restores.heard[r.broker] = e.now
	}
}

// lastHeard is when a restore was last brought something, or another one from the same broker: they are read in turns.
func (e *Engine) lastHeard(l *life, p *restorePart) time.Time {
	if r := e.routes.all[l.source(p)]; r != nil && r.broker >= 0 && e.restores.heard[r.broker].After(p.heard) {
		return e.restores.heard[r.broker]
	}
	return p.heard
}

// flushRestores lets the restores that wait begin, while what all of them may hold is within three bulk writes.
func (e *Engine) flushRestores() {
	for e.restores.waiting && e.admit() {
	}
}

// admit lets the waiting restore with the least to read begin, if there is room for it.
func (e *Engine) admit() bool {
	var life *life
	var next *restorePart
	var all, copies usage
	for _, l := range e.order {
		if !l.restores() {
			continue
		}
		for _, p := range l.restore {
			switch {
			case p.waits && (next == nil || before(l, p, life, next)):
				life, next = l, p
			case p.begun && !p.waits && !p.done && !p.wiping:
				bytes, reading := e.holds(l, p)
				all.add(bytes, reading)
				if !l.urgent() {
					copies.add(bytes, reading)
				}
			}
		}
	}
	if next == nil {
		e.restores.waiting = false
		return false
	}
	room := e.roomFor(next)
	most := 3 * e.cfg.RestoreBytes
	if !all.leaves(room, most, maxRestores) || !life.urgent() && !copies.leaves(room, most/2, maxRestores/2) {
		return false
	}
	next.waits, next.room, next.heard = false, room, e.now
	e.readPart(life, next)
	return true
}

// usage is what restores hold that have begun, and how many of them read. Those of copies leave half to tasks that shall run: a copy may take
// hours to learn.
type usage struct{ bytes, reading int }

func (u *usage) add(bytes, reading int) {
	u.bytes += bytes
	u.reading += reading
}

// leaves says whether there is room for one more. Where nobody holds anything there always is.
func (u *usage) leaves(room, bytes, reading int) bool {
	return u.bytes == 0 || u.bytes+room <= bytes && u.reading < reading
}

// urgent says that the task processes nothing until its stores are there.
func (l *life) urgent() bool { return l.role == Active || l.held }

// before orders the restores that wait: a task that shall run comes before one that only follows, and the least to read comes first.
func before(l *life, p *restorePart, other *life, than *restorePart) bool {
	if a, b := l.urgent(), other.urgent(); a != b {
		return a
	}
	return p.end-p.pos < than.end-than.pos
}

// roomFor estimates what a restore will hold: half as much again as one bulk write, so that reading goes on meanwhile, or all that is left.
func (e *Engine) roomFor(p *restorePart) int {
	most := e.cfg.RestoreBytes + e.cfg.RestoreBytes/2
	if left := p.end - p.pos; left < int64(most/recordEstimate) {
		return min(max(int(left)*recordEstimate, leastRoom), most)
	}
	return most
}

// bound is what a restore may really hold.
func (e *Engine) bound(p *restorePart) int {
	if p.share > 0 {
		return p.share
	}
	return max(p.room, min(leastBound, e.cfg.RestoreBytes+e.cfg.RestoreBytes/2))
}

// shareTails deals what copies may hold out among those that have caught up. There may be hundreds, and all of them may fall behind at once:
// when brokers or this process have stood still. A share is taken back only if it is much too large by now.
func (e *Engine) shareTails() {
	n := 0
	for _, l := range e.order {
		for _, p := range l.restore {
			if p.tail && p.caught {
				n++
			}
		}
	}
	share := max(leastRoom, min(leastBound, 3*e.cfg.RestoreBytes/2/max(n, 1)))
	for _, l := range e.order {
		for _, p := range l.restore {
			if p.tail && p.caught && e.bound(p) > share+share/2 {
				p.share = share
				e.boundRoute(l.source(p), share)
				e.writePart(l, p) // what it holds may be more than that, and then nothing more comes
			}
		}
	}
}

// holds returns what is to be counted for a restore that has begun, and 1 if it reads. Whoever has heard nothing for a while, because no
// broker leads its partition perhaps, does not keep others waiting. Nor does a copy that has caught up: it is never far behind for long.
func (e *Engine) holds(l *life, p *restorePart) (bytes, reading int) {
	held := p.held()
	if p.read >= p.end || p.tail && p.caught {
		return held, 0
	}
	if held == 0 {
		stalled := e.lastHeard(l, p).Add(stalledAfter)
		if !e.now.Before(stalled) {
			return 0, 0
		}
		e.wakeAt(stalled)
	}
	return max(held, p.room), 1
}
