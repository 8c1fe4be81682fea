package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// boardRow is what the readiness board says of a task.
type boardRow struct {
	member string
	offset int64
}

// readiness is a row that was on the board at some time.
type readiness struct {
	task   task.ID
	member string
}

// isBoard says that a committed offset is a row of the readiness board.
func isBoard(tp task.TopicPartition) bool { return tp.Topic == topicCounts }

// boardFault loses a request to the readiness board, or holds it up. It reports false if the request is to be sent as it is.
func (p *process) boardFault(send, lost func()) bool {
	w := p.w
	switch {
	case !w.Chance(w.mood.boardLost):
		return false
	case w.Rand.IntN(2) == 0:
		w.saw(BoardLost)
		p.boardFailed++
		w.note(p, "loses a request to the readiness board", task.ID{}, 0, 0)
		w.After(w.UpTo(300*time.Millisecond), p.Process, lost)
	default:
		w.saw(BoardLate)
		w.note(p, "is slow to ask the readiness board", task.ID{}, 0, 0)
		w.After(w.UpTo(time.Second), p.Process, send)
	}
	return true
}

// boardWritten notes what became of the last write to the board.
func (p *process) boardWritten(ev engine.OffsetsCommitted) {
	if ev.Request != p.boardWrite {
		return
	}
	p.boardWrite = 0
	refused := ev.Err != nil || slices.ContainsFunc(slices.Collect(maps.Values(ev.Codes)), func(c kcode.Code) bool { return c != kcode.None })
	if refused && ev.Request != p.boardDropped { // which counts already
		p.boardFailed++
	}
}

// shown notes a row, as it is committed.
func (o *oracle) shown(c modelbroker.Commit) {
	if end := o.w.Broker.End(c.TopicPartition); c.Offset > end {
		o.w.violatedAt(c.TopicPartition, "%s is ready for %v at %d, its end is %d", nameOf(o.members[c.MemberID]), c.TopicPartition, c.Offset, end)
	}
	words := strings.Fields(c.Metadata)
	if len(words) != 3 || words[2] != c.MemberID {
		o.w.violatedAt(c.TopicPartition, "the readiness board says %q of %v for %s", c.Metadata, c.TopicPartition, c.MemberID)
		return
	}
	o.shownBy[readiness{task.ID{Subtopology: 1, Partition: c.Partition}, c.MemberID}] = true
	o.rows[c.TopicPartition] = boardRow{member: c.MemberID, offset: c.Offset}
}

// joins holds what a member says of itself against what is so: what it runs it claims, and who is ready is on the board, unless that cannot be
// written.
func (o *oracle) joins(p *process, a group.Action) {
	j, ok := a.(group.SendJoin)
	if !ok {
		return
	}
	o.rounds.joins(j.Reason)
	s, err := assignor.DecodeSubscription(j.Metadata)
	if err != nil {
		o.w.violated("%s joins with what nobody can read: %v", p.name, err)
		return
	}
	d, err := assignor.DecodeMemberData(s.UserData)
	if err != nil {
		o.w.violated("%s joins with what nobody can read: %v", p.name, err)
		return
	}
	o.claims(p, s, d)
	clear(p.told)
	for _, r := range d.Replicas {
		if r.Kind == assignor.OnDisk {
			p.told[r.Task] = true
		}
		if r.Kind != assignor.Learner || !r.Ready {
			continue
		}
		row := readiness{r.Task, j.MemberID}
		if p.boardWrite != 0 { // it may be there already; and a join that fails is sent again as it is
			o.shownBy[row] = true
		}
		if !o.shownBy[row] && p.boardFailed < 5 {
			o.w.violatedTask(r.Task, "%s says that it is ready for task %v, and the board does not", p.name, r.Task)
		}
	}
}

// claims holds that whatever a process runs is among its claims, and nothing of it among what it gives up.
func (o *oracle) claims(p *process, s assignor.Subscription, d assignor.MemberData) {
	claimed := map[task.ID]bool{}
	for _, tp := range s.Owned {
		switch tp.Topic {
		case topicIn:
			claimed[task.ID{Subtopology: 0, Partition: tp.Partition}] = true
		case topicWords:
			claimed[task.ID{Subtopology: 1, Partition: tp.Partition}] = true
		}
	}
	for _, id := range d.Claims {
		claimed[id] = true
	}
	for _, t := range p.Engine.Tasks() {
		if t.Role == engine.Active && (t.State == "running" || t.State == "releasing") && !claimed[t.Task] {
			o.w.violatedTask(t.Task, "%s runs task %v and does not claim it", p.name, t.Task)
		}
		if t.Role == engine.Active && (t.State == "opening" || t.State == "restoring") && t.Task.Subtopology == 1 && claimed[t.Task] && o.rounds.current != nil && p.orderly() && !p.Engine.Joined() {
			o.w.violatedTask(t.Task, "%s claims task %v, which it has not begun to run", p.name, t.Task)
		}
	}
}
