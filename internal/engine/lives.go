package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// life is one life of a task in this process: from its assignment to its end, in one role after another.
type life struct {
	id      task.ID
	key     uint64 // under which its stores are open and its changelogs are read
	epoch   uint64 // of its owner: another one whenever it is made active
	grant   int32  // the generation that made it active
	spec    *task.Spec
	role    Role
	state   lifeState
	since   time.Time
	paused  time.Time // when the release under way was asked for
	failed  bool      // its owner has failed
	hollow  bool      // its owner was released without its last commit, and cannot go on
	stuck   bool
	renews  bool      // it is stopped to be opened anew, as its inputs have changed
	again   bool      // assigned while closing: it goes on as then when it has ended
	then    Role      // with again
	owned   bool      // an owner has been started
	offered int32     // the generation that was applied when it was declared as released, and not resumed since; else 0
	asked   int       // releases that are not answered yet
	opened  bool      // stores are open, or being opened
	ops     []storeOp // Apply and Wipe that are on the way; they are answered in their order
	shut    bool      // CloseStores was asked for

	open      *openState
	restore   []*restorePart
	at        []int64   // per store: the stored position
	learn     *learning // of a standby or learner
	promotion promotion
	lacked    int64   // its lag before it was opened, in this role; -1 where that is not known
	held      bool    // it was active when the rebalance under way began, and had processed nothing
	owner     string  // the member that runs the task, as far as the plan says
	move      string  // the reason of its last move
	ends      []int64 // per store: the changelog offset that our next own record gets, where nobody else writes
	holes     []*hole // per store: what somebody else wrote; the position stays before it until it is repaired
	rewrites  uint64  // Rewrite events that the task was told
	reads     uint64  // holes that were read
	sealed    *sealedCommit
	acked     uint64
	done      []int64   // per input: committed
	ids       []topicID // per input
	restarts  restarts  // topics of which the next life takes nothing of what is committed

	recoveries []*recovery // of the inputs that have, or had, a gap
	lead       lead        // of the main paths, before gaps begin
	leadUntil  time.Time   // with leadFresh and leadReached
}

// storeOp is a write to a task's stores: of a restore, or of a commit where part is nil.
type storeOp struct {
	part  *restorePart
	wipe  bool
	batch *statestore.Batch // what is written, unless it is wiped
}

func (l *life) inputs() []task.TopicPartition {
	tps := make([]task.TopicPartition, len(l.spec.Inputs))
	for i, in := range l.spec.Inputs {
		tps[i] = task.TopicPartition{Topic: in.Topic, Partition: l.id.Partition}
	}
	return tps
}

func (l *life) input(i int) FetchSource {
	return FetchSource{TopicPartition: task.TopicPartition{Topic: l.spec.Inputs[i].Topic, Partition: l.id.Partition}, Task: l.id, Epoch: l.epoch, Index: i}
}

func (l *life) changelog(store int) task.TopicPartition {
	return task.TopicPartition{Topic: l.spec.Stores[store].Changelog, Partition: l.id.Partition}
}

// holder returns the life of a task whose stores are open under key.
func (e *Engine) holder(id task.ID, key uint64) *life {
	if l := e.lives[id]; l != nil && l.key == key {
		return l
	}
	return nil
}

// alive returns the life of a task if it is still in this epoch.
func (e *Engine) alive(id task.ID, epoch uint64) *life {
	if l := e.lives[id]; l != nil && l.epoch == epoch {
		return l
	}
	return nil
}

func (e *Engine) setLife(l *life, s lifeState) {
	if l.state == s {
		return
	}
	l.state, l.since = s, e.now
	e.note(Notice{Kind: NoticeTask, Task: l.id, Role: l.role, Text: s.String()})
}

// open begins a new life of a task.
func (e *Engine) open(id task.ID, role Role) *life {
	spec := e.specs[id.Subtopology]
	if spec == nil {
		e.fail(fmt.Errorf("the group assigned task %s, whose subtopology this program does not have: all members must run the same topology", id))
		return nil
	}
	e.epochs++
	l := &life{id: id, key: e.epochs, epoch: e.epochs, grant: e.granted, spec: spec, role: role, since: e.now, done: make([]int64, len(spec.Inputs))}
	l.lacked = e.lackedOnDisk(id)
	e.lives[id] = l
	at, _ := slices.BinarySearchFunc(e.order, id, func(l *life, id task.ID) int { return l.id.Compare(id) })
	e.order = slices.Insert(e.order, at, l)
	e.note(Notice{Kind: NoticeTask, Task: id, Role: role, Text: lifeOpening.String()})
	e.beginOpen(l)
	return l
}

// release asks a running task to take nothing more and to commit what it has done.
func (e *Engine) release(l *life) {
	e.setLife(l, lifeReleasing)
	l.paused = e.now
	l.asked++
	e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Release{}})
}

func (e *Engine) resume(l *life) {
	if l.hollow {
		e.renew(l)
		return
	}
	l.offered = 0
	if e.renewing(l) {
		return
	}
	e.setLife(l, lifeRunning)
	e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Resume{}})
}

func (e *Engine) taskReleased(ev TaskReleased) {
	l := e.alive(ev.Task, ev.Epoch)
	if l == nil {
		return
	}
	if ev.Forgone {
		l.hollow = true
		e.dropHoles(l) // it repairs nothing any more
	}
	if l.asked--; l.asked > 0 || l.state != lifeReleasing {
		if l.hollow && l.state == lifeRunning {
			e.renew(l)
		}
		return // the answer to a release that was taken back: the task has run since, and may run still
	}
	if l.holed() {
		e.releaseRepaired(l)
		return
	}
	e.released(l)
}

func (e *Engine) released(l *life) {
	e.setLife(l, lifeReleased)
	e.forgetFailed(l)
	if e.renewing(l) {
		return
	}
	if !e.stopping() && e.prepare == nil { // else whoever asked for it looks at it next
		e.step(groupRejoin(drained(l.id)))
	}
}

// renew begins a task anew at its last commit, whose owner has nothing left to go on with.
func (e *Engine) renew(l *life) {
	e.closeLife(l)
	l.again, l.then = true, Active
}

// forgetFailed drops what a task that has failed, or has forgone its last commit, has made and not committed. Whoever has it next makes it again, and must not be overtaken.
func (e *Engine) forgetFailed(l *life) {
	if l.failed || l.hollow {
		e.do(ToSender{Event: ForgetTask{Task: l.id, Epoch: l.epoch}})
	}
}

// drained is why a member asks for the round in which a task that was not released in time can move: its receiver does not, as the leader
// knows that it was late.
func drained(id task.ID) string { return "task " + id.String() + " is drained" }

func (l *life) drains() bool { return l != nil && l.state == lifeReleasing }

// closeLife ends a life without another commit. It is gone when its owner and its stores are closed.
func (e *Engine) closeLife(l *life) {
	if l.state == lifeClosing {
		return
	}
	e.setLife(l, lifeClosing)
	e.dropRoutes(l)
	l.sealed, l.restore, l.open, l.learn = nil, nil, nil, nil
	if l.role == Active {
		e.do(ToSender{Event: ForgetTask{Task: l.id, Epoch: l.epoch}})
	}
	if l.owned {
		e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Close{}})
		return
	}
	e.closeStores(l)
}

// loseLife ends a life whose task is not ours any more: nothing of it may be committed, its generations are dropped.
func (e *Engine) loseLife(l *life) {
	if l.owned && l.state != lifeClosing {
		e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Lost{}})
	}
	e.closeLife(l)
}

func (e *Engine) taskClosed(id task.ID, epoch uint64) {
	l := e.alive(id, epoch)
	if l == nil {
		return
	}
	l.owned = false
	if l.state != lifeClosing {
		e.closeLife(l)
		return
	}
	e.closeStores(l)
}

// closeStores closes the stores once nothing is on the way to them, unless the task goes on here in another role.
func (e *Engine) closeStores(l *life) {
	if l.shut || l.owned || len(l.ops) > 0 {
		return
	}
	if !l.opened {
		e.gone(l)
		return
	}
	if l.again && l.at != nil && !l.stuck && !e.stopping() {
		e.reborn(l)
		return
	}
	l.shut = true
	e.do(CloseStores{Task: l.id, Epoch: l.key})
}

func (e *Engine) storesClosed(ev StoresClosed) {
	l := e.holder(ev.Task, ev.Epoch)
	if l == nil {
		return
	}
	if ev.Err != nil {
		e.storeFailed(l, "close", ev.Err)
	}
	e.gone(l)
}

func (e *Engine) gone(l *life) {
	delete(e.lives, l.id)
	e.order = slices.DeleteFunc(e.order, func(o *life) bool { return o == l })
	e.note(Notice{Kind: NoticeTask, Task: l.id, Role: l.role, Text: "closed"})
	e.leaveOnDisk(l)
	if l.stuck {
		e.unstuck(l)
		return
	}
	if l.again && !e.stopping() {
		if next := e.open(l.id, l.then); next != nil && next.role == Active {
			next.restarts = l.restarts
		}
	}
}

func (e *Engine) taskFailed(ev TaskFailed) {
	l := e.alive(ev.Task, ev.Epoch)
	if l == nil || l.state == lifeClosing {
		return
	}
	if e.fullForTask(ev, l) || e.makeAgain(l, ev.Err) {
		return
	}
	e.dropHoles(l) // it repairs nothing any more
	l.failed = true
	if l.state == lifeReleased {
		e.forgetFailed(l)
	}
	e.fail(ev.Err)
	var refused *ProduceError
	if errors.As(ev.Err, &refused) {
		e.loseLife(l) // its acknowledgements never come: there is nothing to drain
	}
}

// taskStuck disowns a task whose user call does not return: it is given to somebody else, and its keys stay reserved here until the call
// comes back.
func (e *Engine) taskStuck(ev TaskStuck) {
	l := e.alive(ev.Task, ev.Epoch)
	if l == nil || l.stuck {
		return
	}
	l.stuck = true
	e.stuck++
	e.note(Notice{Kind: NoticeStuck, Task: l.id, Err: ev.Err})
	e.loseLife(l)
	if e.stuck > e.cfg.MaxStuck {
		var ids []task.ID
		for _, o := range e.order {
			if o.stuck {
				ids = append(ids, o.id)
			}
		}
		e.fail(&StuckError{Tasks: ids, Err: ev.Err})
		return
	}
	if e.prepare == nil && e.assigned && !e.stopping() {
		e.step(groupRejoin("task " + l.id.String() + " is stuck"))
	}
}

// unstuck is called when a call that outlasted the watchdog has returned after all: this process can have the task again.
func (e *Engine) unstuck(l *life) {
	e.stuck--
	if e.assigned && !e.stopping() {
		e.step(groupRejoin("task " + l.id.String() + " is not stuck any more"))
	}
}
