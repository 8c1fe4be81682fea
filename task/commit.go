package task

import (
	"bytes"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/statestore"
)

// commit is what a task knows of its commits.
type commit struct {
	outstanding *Sealed // told to the committer, no result yet
	wanted      bool    // a unit asked for a commit that no seal covers yet
	blocked     bool    // nothing may be taken before that commit is done
	unblocks    bool    // the outstanding commit is the one that was waited for

	callbacks []func(error) // of units since the last seal
	covered   []func(error) // of units that the outstanding commit covers
	refused   []func(error) // of units that were undone

	positions []int64 // as of the last seal
	low       []int64 // committed, or being committed
	seq       uint64
	taken     int64
	rewrites  uint64 // done so far

	legs legs

	buffer  Sealed // reused by each seal
	changes [][]statestore.Change
}

func newCommit(inputs, stores int, positions []int64) commit {
	return commit{
		positions: append([]int64(nil), positions...),
		low:       append([]int64(nil), positions...),
		buffer:    Sealed{Offsets: make([]InputOffset, inputs), Stores: make([]SealedStore, 0, stores)},
		changes:   make([][]statestore.Change, stores),
		legs:      legs{store: -1},
	}
}

// Dirty says whether a commit would have anything to say: a position that moved, even over nothing but gaps, a row, an output, or a unit
// that asked for it.
func (t *Task) Dirty() bool {
	if t.dead {
		return false
	}
	if (t.draining || t.err != nil) && t.failure.suspects.says || t.failure.emitting || t.failure.unsaid {
		return true
	}
	if t.commit.wanted || t.out.seq != t.commit.seq || len(t.out.active.Groups) > 0 {
		return true
	}
	for i := range t.in.all {
		if t.in.all[i].position != t.commit.positions[i] {
			return true
		}
	}
	if t.gapsMoved() {
		return true
	}
	for _, s := range t.stores {
		if s.DirtyLen() > 0 {
			return true
		}
	}
	return false
}

// Outstanding says whether a seal waits for its result.
func (t *Task) Outstanding() bool { return t.commit.outstanding != nil }

// Seal cuts the task: it emits what emits at commit, appends the changelog records to the effects, makes all effects ready and returns
// what is to be committed. The answer is due with Committed; there must not be another seal before. If an emission fails the task stops
// with everything since the last seal dropped, and the result is nil.
func (t *Task) Seal(now time.Time) *Sealed {
	if t.commit.outstanding != nil {
		panic("task: sealed while a commit is outstanding")
	}
	t.turn(now)
	if !t.emit() {
		if t.err != nil {
			t.abandon(ErrRolledBack, ErrRolledBack)
		}
		return nil
	}
	t.passed()
	c := &t.commit
	s := &c.buffer
	s.Task, s.Epoch, s.StreamTime = t.cfg.ID, t.cfg.Epoch, t.streamTime
	s.Stores = s.Stores[:0]
	for i := range t.stores {
		t.sealStore(i)
	}
	t.out.cut()
	t.out.trim()
	s.Seq = t.out.seq
	c.legs.after = s.Seq
	s.Records, s.Rewrites = int(t.taken-c.taken), c.rewrites
	t.sealOffsets()
	c.seq, c.taken = t.out.seq, t.taken
	c.outstanding = s
	c.unblocks, c.wanted = c.blocked, false
	c.callbacks, c.covered = c.covered[:0], c.callbacks
	return s
}

// sealOffsets says of every input how far it is, those that did not move too: so a position that was only ever looked up is kept as well.
func (t *Task) sealOffsets() {
	t.runs()
	t.failure.unsaid = false
	if t.crew != nil {
		t.crew.shut = t.draining
	}
	t.commit.buffer.Offsets = t.commit.buffer.Offsets[:0]
	for i := range t.in.all {
		if t.in.all[i].absent {
			continue
		}
		low := t.low(i)
		t.commit.buffer.Offsets = append(t.commit.buffer.Offsets, InputOffset{
			TopicPartition: TopicPartition{t.cfg.Spec.Inputs[i].Topic, t.cfg.ID.Partition},
			Offset:         low, Metadata: t.metadata(i, low),
		})
		t.commit.positions[i], t.commit.low[i] = t.in.all[i].position, low
		t.closeWindow(i)
	}
	t.gapsSealed()
}

// sealStore seals one store.
func (t *Task) sealStore(i int) {
	changes := t.stores[i].Seal(t.commit.changes[i][:0])
	t.commit.changes[i] = changes
	if len(changes) == 0 {
		return
	}
	sealed := SealedStore{Store: i, Changes: changes}
	if d := &t.changelogs[i]; d.Topic != "" {
		sealed.Changelog = TopicPartition{d.Topic, t.cfg.ID.Partition}
		for j := range changes {
			if i == t.cfg.Spec.Retries-1 && changes[j].Value == nil {
				t.commit.legs.store = i
				continue
			}
			t.out.row(d, t.cfg.ID.Partition, &changes[j], t.now)
			if t.out.active.Bytes >= effectsTarget {
				t.out.cut()
			}
		}
	}
	t.commit.buffer.Stores = append(t.commit.buffer.Stores, sealed)
}

// Committed takes the result of the outstanding seal. With nil its rows are in the stores already. With an error, which must be one that
// no retry can help, the task stops and everything that is not committed is dropped.
func (t *Task) Committed(err error) {
	c := &t.commit
	if c.outstanding == nil {
		return
	}
	c.outstanding = nil
	if err != nil {
		t.stop(&Error{Task: t.cfg.ID, Partition: -1, Offset: -1, Kind: KindCommit, Err: err})
		t.abandon(err, ErrRolledBack)
		return
	}
	for _, s := range t.stores {
		if s.Sealed() {
			s.Applied()
		}
	}
	t.stats.Commits++
	t.passTurn()
	if c.unblocks {
		c.unblocks, c.blocked = false, false
	}
	covered := c.covered
	c.covered = c.covered[:0]
	t.call(covered, nil)
}

// abandon drops everything that is not committed, for good. Callbacks of units that the outstanding seal covers are told the first error,
// later ones the second.
func (t *Task) abandon(covered, later error) {
	t.dead = true
	t.passTurn()
	t.drop()
	c := &t.commit
	t.call(c.covered, covered)
	t.call(c.callbacks, later)
	t.refuseCallbacks()
	c.covered, c.callbacks, c.outstanding, c.wanted, c.blocked = nil, nil, nil, false, false
	c.legs.store = -1
	t.failure.emitting, t.failure.pool = false, nil
	t.drop() // what callbacks wrote
}

// drop gives up what is not handed over. What is on its way to the broker stays as it is: the sender goes on reading it, and its memory, that
// of the overlays' sealed rows too, is used by nobody again.
func (t *Task) drop() {
	for _, s := range t.stores {
		s.Drop(nil)
	}
	t.out.discard()
	t.in.drop()
	if t.gaps == nil {
		return
	}
	for _, g := range t.gaps.all {
		if g != nil {
			g.drop()
		}
	}
}

// refuseCallbacks calls the callbacks of units that were undone.
func (t *Task) refuseCallbacks() {
	for len(t.commit.refused) > 0 {
		refused := t.commit.refused
		t.commit.refused = nil
		t.call(refused, ErrRolledBack)
	}
}

// call calls the callbacks of commits, each in a unit of its own. In a task that has stopped the calls are made all the same, but what they
// do is undone, and a commit that they ask for is not answered. In one that is being released it waits for a commit that has another
// reason, or for the end: a callback that asks for the next commit each time would hold the release up for ever.
func (t *Task) call(callbacks []func(error), err error) {
	for i, f := range callbacks {
		callbacks[i] = nil
		t.callOne(f, err)
	}
}

// callbackNode is the node that callbacks of commits are said to be.
const callbackNode = "commit callback"

func (t *Task) callOne(f func(error), err error) {
	defer t.recovered()
	t.begin(-1, -1)
	t.unit.node = callbackNode
	t.unit.void = t.err != nil || t.dead
	t.unit.quiet = t.draining
	f(err)
	t.end()
}

// Rewrite makes the rows of these keys dirty as they are, in a unit of its own, so that the next seal writes them to the changelog again. A
// key without a row gets a tombstone.
func (t *Task) Rewrite(store int, keys [][]byte) {
	if t.err != nil || t.dead {
		return
	}
	t.rewrite(t.stores[store], keys)
	t.commit.rewrites++
	t.refuseCallbacks()
}

func (t *Task) rewrite(s *statestore.Overlay, keys [][]byte) {
	defer t.recovered()
	t.begin(-1, -1)
	t.unit.node = "rewrite"
	for _, key := range keys {
		row, found, err := s.Get(key)
		switch {
		case err != nil:
		case found:
			err = s.Put(key, bytes.Clone(row.Value), row.Timestamp)
		default:
			err = s.Delete(key, max(t.streamTime, 0))
		}
		if err != nil {
			t.env.Fail("rewrite", KindStore, err)
			break
		}
	}
	t.end()
}

// Lost drops everything that is not committed: the task is somebody else's. It can only be closed.
func (t *Task) Lost() { t.abandon(ErrLost, ErrLost) }

// Close ends the task without a commit and closes the user's processors. The error is a panic of theirs.
func (t *Task) Close() error {
	t.abandon(ErrReleased, ErrReleased)
	return t.closeGraph()
}

func (t *Task) closeGraph() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("close the nodes: %w", t.env.panicked("", p))
		}
	}()
	if f := t.graph.Close; f != nil {
		t.graph.Close = nil
		f()
	}
	return nil
}
