package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/task"
)

// view is a group as it is shown. Its names in JSON stay the same.
type view struct {
	Group      string `json:"group"`
	State      string `json:"state"`
	Protocol   string `json:"protocol"`
	Generation int32  `json:"generation"` // -1: not known
	// Tasks is how many there are, assigned or not; 0 while that is not known.
	Tasks      int             `json:"tasks"`
	Members    []memberView    `json:"members"`
	Unassigned []string        `json:"unassigned"`
	Moves      []moveView      `json:"moves"` // of the last rebalance
	Partitions []partitionView `json:"partitions,omitempty"`
}

type memberView struct {
	ID              string            `json:"id"`
	ClientID        string            `json:"clientId"`
	Host            string            `json:"host"`
	Process         string            `json:"process"` // in hex, the whole of it
	TopologyVersion int32             `json:"topologyVersion"`
	Capacity        int               `json:"capacity"`
	Rack            string            `json:"rack,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	Draining        bool              `json:"draining"`
	Active          []activeView      `json:"active"`
	Learners        []copyView        `json:"learners"`
	Standbys        []copyView        `json:"standbys"`
	OnDisk          []copyView        `json:"onDisk"`
	Unfit           []string          `json:"unfit,omitempty"`
	// Problems say what of the member's bytes could not be read; Partitions are those of the standard part of its assignment then.
	Problems   []string `json:"problems,omitempty"`
	Partitions []string `json:"partitions,omitempty"`
}

// moveView is a change of a task's owner. Kind is begun, done, or placed if nobody ran the task.
type moveView struct {
	Task   string `json:"task"`
	Kind   string `json:"kind"`
	From   string `json:"from,omitempty"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// activeView is a task that runs. Receiver is the member that shall have it, if it moves; Ready: it is to be given up in the next round.
type activeView struct {
	Task      string `json:"task"`
	Receiver  string `json:"receiver,omitempty"`
	Ready     bool   `json:"receiverReady,omitempty"`
	Restoring bool   `json:"restoring,omitempty"`
}

// copyView is a copy of a task's state. What it says beside Task and Owner is from the rebalance, and null where the member did not say.
type copyView struct {
	Task    string `json:"task"`
	Owner   string `json:"owner,omitempty"`
	Instant bool   `json:"instant,omitempty"` // taken over as it is
	Ready   bool   `json:"ready"`
	Stalled bool   `json:"stalled,omitempty"`
	Lag     *int64 `json:"lag"`
	CatchUp *int32 `json:"catchUpSeconds"`
}

// decoded is a member with its bytes taken apart; of what could not be read the zero value.
type decoded struct {
	kafka.DescribedMember
	sub  assignor.Subscription
	data assignor.MemberData
	std  assignor.Assignment
	plan assignor.PlanData
	// planned: plan could be read.
	planned bool
	bad     []string
}

func viewOf(d kafka.GroupDescription) view {
	v := view{Group: d.Group, State: d.State, Protocol: d.Protocol, Generation: -1, Members: []memberView{}, Unassigned: []string{}}
	all := make([]decoded, len(d.Members))
	owners := map[task.ID]string{}
	tasks := map[int32]int32{}
	for i, m := range d.Members {
		all[i] = decode(m, rebalancing(d.State))
		for _, id := range all[i].plan.Active {
			owners[id] = m.ID
		}
		for _, c := range all[i].plan.Counts {
			tasks[c.Subtopology] = c.Partitions
		}
		if all[i].planned {
			v.Generation = all[i].plan.Generation
		}
	}
	blind := false
	for _, m := range all {
		v.Members = append(v.Members, m.view(owners))
		blind = blind || len(m.bad) > 0
	}
	v.Moves = movesOf(all)
	for _, sub := range slices.Sorted(maps.Keys(tasks)) {
		v.Tasks += int(tasks[sub])
		for p := range tasks[sub] {
			if id := (task.ID{Subtopology: sub, Partition: p}); owners[id] == "" && !blind { // who cannot be read may run it
				v.Unassigned = append(v.Unassigned, id.String())
			}
		}
	}
	return v
}

// movesOf are the moves that the members were told of, each once, in the order of the tasks.
func movesOf(all []decoded) []moveView {
	var moves []assignor.Move
	for _, m := range all {
		moves = append(moves, m.plan.Moves...)
	}
	slices.SortFunc(moves, func(a, b assignor.Move) int {
		return cmp.Or(a.Task.Compare(b.Task), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.To, b.To))
	})
	moves = slices.Compact(moves)
	out := make([]moveView, len(moves))
	for i, m := range moves {
		out[i] = moveView{Task: m.Task.String(), Kind: kindOf(m), From: m.From, To: m.To, Reason: m.Reason}
	}
	return out
}

func kindOf(m assignor.Move) string {
	switch m.Kind {
	case assignor.Transferred:
		return "done"
	case assignor.Placed:
		return "placed"
	default:
		return "begun"
	}
}

// decode takes a member's bytes apart. While the group rebalances the coordinator shows none, and that is no fault.
func decode(m kafka.DescribedMember, rebalancing bool) decoded {
	out := decoded{DescribedMember: m}
	if rebalancing && len(m.Metadata) == 0 && len(m.Assignment) == 0 {
		return out
	}
	var err error
	if out.sub, err = assignor.DecodeSubscription(m.Metadata); err != nil {
		out.bad = append(out.bad, err.Error())
	} else if out.data, err = assignor.DecodeMemberData(out.sub.UserData); err != nil {
		out.bad = append(out.bad, err.Error())
	}
	if out.std, err = assignor.DecodeAssignment(m.Assignment); err != nil {
		out.bad = append(out.bad, err.Error())
	} else if out.plan, err = assignor.DecodePlanData(out.std.UserData); err != nil {
		out.bad = append(out.bad, err.Error())
	} else {
		out.planned = true
	}
	return out
}

func (m *decoded) view(owners map[task.ID]string) memberView {
	v := memberView{
		ID: m.ID, ClientID: m.ClientID, Host: m.Host, TopologyVersion: m.data.TopologyVersion, Capacity: m.data.Capacity, Rack: m.sub.Rack,
		Tags: m.data.Tags, Draining: m.data.Draining, Active: []activeView{}, Learners: []copyView{}, Standbys: []copyView{}, OnDisk: []copyView{},
		Problems: m.bad,
	}
	if m.data.Process != [16]byte{} {
		v.Process = hex.EncodeToString(m.data.Process[:])
	}
	marks := map[task.ID]assignor.Mark{}
	for _, k := range m.plan.Marks {
		marks[k.Task] = k
	}
	for _, id := range m.plan.Active {
		_, restoring := m.replica(id, assignor.Restoring)
		v.Active = append(v.Active, activeView{Task: id.String(), Receiver: marks[id].Receiver, Ready: marks[id].Ready, Restoring: restoring})
	}
	planned := map[task.ID]bool{}
	for _, in := range m.plan.Learners {
		planned[in.Task] = true
		c := m.copyOf(in.Task, owners, assignor.Learner, assignor.Standby, assignor.Restoring, assignor.OnDisk)
		c.Instant = in.Instant
		v.Learners = append(v.Learners, c)
	}
	for _, s := range m.plan.Standbys {
		planned[s.Task] = true
		v.Standbys = append(v.Standbys, m.copyOf(s.Task, owners, assignor.Standby, assignor.Learner, assignor.Restoring, assignor.OnDisk))
	}
	for _, r := range m.data.Replicas {
		if r.Kind == assignor.OnDisk && owners[r.Task] != m.ID && !planned[r.Task] {
			v.OnDisk = append(v.OnDisk, m.copyOf(r.Task, owners, assignor.OnDisk))
		}
	}
	for _, id := range m.data.Unfit {
		v.Unfit = append(v.Unfit, id.String())
	}
	if len(m.bad) > 0 {
		for _, tp := range m.std.Partitions {
			v.Partitions = append(v.Partitions, tp.String())
		}
	}
	return v
}

// copyOf is what the member said, when it joined, about its copy of a task; of several kinds the first that it named.
func (m *decoded) copyOf(id task.ID, owners map[task.ID]string, kinds ...assignor.Kind) copyView {
	c := copyView{Task: id.String(), Owner: owners[id]}
	for _, kind := range kinds {
		r, has := m.replica(id, kind)
		if !has {
			continue
		}
		c.Ready, c.Stalled = r.Ready, r.Stalled
		if lag := int64(r.Lag); lag >= 0 {
			c.Lag = &lag
		}
		if seconds := r.CatchUp; seconds > 0 {
			c.CatchUp = &seconds
		}
		break
	}
	return c
}

func (m *decoded) replica(id task.ID, kind assignor.Kind) (assignor.Replica, bool) {
	i := slices.IndexFunc(m.data.Replicas, func(r assignor.Replica) bool { return r.Task == id && r.Kind == kind })
	if i < 0 {
		return assignor.Replica{}, false
	}
	return m.data.Replicas[i], true
}

// unread is an error if some member's bytes could not be read.
func (v *view) unread() error {
	n := 0
	for _, m := range v.Members {
		if len(m.Problems) > 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d members could not be read whole (they may run a newer version: use its understudy command); shown is what the standard part says", n, len(v.Members))
}
