package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/task"
)

func id(sub, part int32) task.ID { return task.ID{Subtopology: sub, Partition: part} }

func ids(sub int32, parts ...int32) (out []task.ID) {
	for _, p := range parts {
		out = append(out, id(sub, p))
	}
	return out
}

// member is one that joined with this and was assigned that.
func member(name string, s assignor.Subscription, d assignor.MemberData, p assignor.PlanData, parts ...int32) kafka.DescribedMember {
	s.UserData = d.Append(nil)
	p.Generation = 7
	p.Counts = []assignor.Count{{Subtopology: 0, Partitions: 6}, {Subtopology: 1, Partitions: 3}}
	a := assignor.Assignment{UserData: p.Append(nil)}
	for _, n := range parts {
		a.Partitions = append(a.Partitions, task.TopicPartition{Topic: "in", Partition: n})
	}
	return kafka.DescribedMember{ID: name, ClientID: "understudy", Host: "/10.0.0.1", Metadata: s.Append(nil), Assignment: a.Append(nil)}
}

// running is a group of three in the middle of moves.
func running() kafka.GroupDescription {
	a := member("worker-a", assignor.Subscription{Generation: 6, Rack: "r1", Topics: []string{"in"}},
		assignor.MemberData{Process: [16]byte{0xab, 0xcd, 0xef, 1}, TopologyVersion: 2, Capacity: 1, Tags: map[string]string{"zone": "x", "arch": "arm"},
			Replicas: []assignor.Replica{
				{Task: id(1, 1), Kind: assignor.Standby, Lag: 4}, {Task: id(0, 1), Kind: assignor.Restoring, Lag: 9}, {Task: id(0, 5), Kind: assignor.OnDisk, Lag: 1000},
			}},
		assignor.PlanData{Active: ids(0, 0, 1, 2, 3), Marks: []assignor.Mark{{Task: id(0, 0), Receiver: "worker-c"}, {Task: id(0, 3), Receiver: "worker-c", Ready: true}},
			Standbys: []assignor.Copy{{Task: id(1, 1)}, {Task: id(1, 0)}},
			Moves:    []assignor.Move{{Task: id(0, 0), Kind: assignor.Marked, From: "worker-a", To: "worker-c", Reason: "task 0_0 moves to worker-c: worker-a has 3 more tasks"}}},
		0, 1, 2, 3)
	b := member("worker-b", assignor.Subscription{Generation: 6, Topics: []string{"in"}},
		assignor.MemberData{Process: [16]byte{2}, TopologyVersion: 2, Capacity: 2, Draining: true, Unfit: ids(0, 4)},
		assignor.PlanData{Active: append(ids(0, 5), ids(1, 0, 1)...)}, 5)
	c := member("worker-c", assignor.Subscription{Generation: -1, Topics: []string{"in"}},
		assignor.MemberData{Process: [16]byte{3}, TopologyVersion: 2, Capacity: 1, Replicas: []assignor.Replica{{Task: id(0, 0), Kind: assignor.Learner, Lag: 120, CatchUp: 3}}},
		assignor.PlanData{Active: ids(1, 2), Learners: []assignor.Incoming{{Task: id(0, 0)}, {Task: id(0, 3), Instant: true}},
			Moves: []assignor.Move{
				{Task: id(1, 2), Kind: assignor.Transferred, From: "worker-b", To: "worker-c", Reason: "task 1_2 has moved to worker-c: worker-b has handed it over"},
				{Task: id(0, 0), Kind: assignor.Marked, From: "worker-a", To: "worker-c", Reason: "task 0_0 moves to worker-c: worker-a has 3 more tasks"}, // worker-a knows it too
			}})
	return kafka.GroupDescription{Group: "orders", State: "Stable", ProtocolType: "consumer", Protocol: "learner-v1", Members: []kafka.DescribedMember{a, b, c}}
}

func TestView(t *testing.T) {
	v := viewOf(running())
	require.NoError(t, v.unread())
	require.Equal(t, []string{"0_4"}, v.Unassigned)
	golden(t, "running.txt", v.text())
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	golden(t, "running.json", string(b)+"\n")
}

func TestViewWithOffsets(t *testing.T) {
	v := viewOf(kafka.GroupDescription{Group: "orders", State: "Empty", ProtocolType: "consumer"})
	v.Partitions = []partitionView{{Topic: "in", Partition: 0, Committed: 100, End: 130, Lag: 30}, {Topic: "in", Partition: 10, Committed: -1, End: 7, Lag: -1}}
	golden(t, "empty.txt", v.text())
}

// A member of a newer version is shown as far as the standard part goes, and what it may run is not called unassigned.
func TestViewOfUnreadableMembers(t *testing.T) {
	d := running()
	d.Members[1].Metadata = assignor.Subscription{Topics: []string{"in"}, UserData: []byte{9, 9, 1}}.Append(nil)
	d.Members[1].Assignment = assignor.Assignment{Partitions: []task.TopicPartition{{Topic: "in", Partition: 5}}, UserData: []byte{9, 9, 1}}.Append(nil)
	d.Members[2].Metadata, d.Members[2].Assignment = []byte{1}, []byte{0}
	v := viewOf(d)
	require.ErrorContains(t, v.unread(), "2 of 3 members")
	require.Empty(t, v.Unassigned)
	golden(t, "unreadable.txt", v.text())
}

// In the middle of a rebalance the coordinator shows members and nothing of what they do.
func TestViewOfARebalance(t *testing.T) {
	d := running()
	d.State, d.Protocol = "PreparingRebalance", ""
	for i := range d.Members {
		d.Members[i].Metadata, d.Members[i].Assignment = nil, nil
	}
	v := viewOf(d)
	require.NoError(t, v.unread())
	golden(t, "rebalancing.txt", v.text())
}

func TestForeignGroups(t *testing.T) {
	require.NoError(t, foreign(running()))
	require.NoError(t, foreign(kafka.GroupDescription{State: "Empty", ProtocolType: "consumer"}))
	require.ErrorContains(t, foreign(kafka.GroupDescription{Group: "g", State: "Dead"}), `there is no group "g"`)
	require.ErrorContains(t, foreign(kafka.GroupDescription{Group: "g", State: "Stable", ProtocolType: "connect"}), `"connect"`)
	require.ErrorContains(t, foreign(kafka.GroupDescription{Group: "g", State: "Stable", ProtocolType: "consumer", Protocol: "range"}), `"range"`)
}
