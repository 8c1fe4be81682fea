package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var errCut = errors.New("cut")

func id(sub, part int32) task.ID { return task.ID{Subtopology: sub, Partition: part} }

func smallTopology() Topology {
	return Topology{
		Subtopologies: []Subtopology{{ID: 0, Topics: []string{"in"}, Hash: 1}},
		Partitions:    map[string]int32{"in": 2},
	}
}

// rig drives one machine by hand. Whatever a step wants is in acts.
type rig struct {
	t    *testing.T
	m    *Machine
	now  time.Time
	acts []Action
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, m: New(Config{Group: "g", Seed: 1}), now: time.Unix(1000, 0)}
}

func (r *rig) step(ev Event) *rig {
	r.acts = append(r.acts[:0], r.m.Step(r.now, ev)...)
	return r
}

func (r *rig) after(d time.Duration) *rig {
	r.now = r.now.Add(d)
	return r.step(Tick{})
}

// want takes the action of type A out of the last step.
func want[A Action](r *rig) A {
	r.t.Helper()
	for _, a := range r.acts {
		if a, ok := a.(A); ok {
			return a
		}
	}
	var none A
	require.Failf(r.t, "missing", "no %T among %+v", none, r.acts)
	return none
}

func has[A Action](r *rig) bool {
	for _, a := range r.acts {
		if _, ok := a.(A); ok {
			return true
		}
	}
	return false
}

func (r *rig) discovering() *rig { return r.step(Start{Topology: smallTopology()}) }

func (r *rig) found(addr string) *rig {
	return r.step(CoordinatorFound{Req: want[FindCoordinator](r).Req, Addr: addr})
}

func (r *rig) preparing() *rig { return r.discovering().found("a:1") }

func (r *rig) prepared(claims ...task.ID) *rig {
	return r.step(Prepared{Join: want[Prepare](r).Join, Claims: claims})
}

func (r *rig) joining() *rig { return r.preparing().prepared() }

func (r *rig) joinDone(generation int32) *rig {
	return r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, MemberID: "me", Generation: generation})
}

func (r *rig) syncing() *rig { return r.joining().joinDone(1) }

// assignment is one that lets the member run tasks.
func assignment(p assignor.PlanData) []byte {
	p.Hashes = []assignor.Hash{{Subtopology: 0, Sum: 1}}
	return assignor.Assignment{UserData: p.Append(nil)}.Append(nil)
}

func (r *rig) syncDone(p assignor.PlanData) *rig {
	return r.step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Assignment: assignment(p)})
}

func (r *rig) joined() *rig {
	return r.syncing().syncDone(assignor.PlanData{Active: []task.ID{id(0, 0), id(0, 1)}, Marks: []assignor.Mark{{Task: id(0, 1), Receiver: "b"}}})
}

// beats lets a heartbeat be sent and answers it.
func (r *rig) beats(code kcode.Code, err error) *rig {
	r.t.Helper()
	r.after(500 * time.Millisecond)
	return r.step(HeartbeatDone{Req: want[SendHeartbeat](r).Req, Sent: r.now, Code: code, Err: err})
}

func (r *rig) in(s State) *rig {
	r.t.Helper()
	require.Equal(r.t, s, r.m.State(), "%+v", r.acts)
	return r
}

func tasksOf(marks []assignor.Mark) (out []task.ID) {
	for _, k := range marks {
		out = append(out, k.Task)
	}
	return out
}

// outcome is what a step led to, in words that a table can hold.
func (r *rig) outcome() string {
	out := r.m.State().String()
	for _, a := range r.acts {
		switch a := a.(type) {
		case Wake:
		case Fatal:
			out += " Fatal"
		case Prepare:
			out += fmt.Sprintf(" Prepare%v", tasksOf(a.Marks))
		case Assigned:
			out += fmt.Sprintf(" Assigned%v", a.Tasks)
		case SendJoin:
			out += fmt.Sprintf(" SendJoin(%s)", a.MemberID)
		default:
			out += " " + strings.TrimPrefix(fmt.Sprintf("%T", a), "group.")
		}
	}
	return out
}
