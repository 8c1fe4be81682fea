package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/group/carrier"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var names atomic.Int32

func uniqueName() string { return fmt.Sprintf("app-%d-%d", os.Getpid(), names.Add(1)) }

func openClient(t *testing.T, addrs []string) *kafka.Client {
	c, err := kafka.Open(kafka.Config{Brokers: addrs})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// joins makes a member of the group, of the simplest kind: it runs what it is assigned, gives up at once what is due, and copies of a state
// are there when they are asked for.
func joins(t *testing.T, addrs []string, app string, process byte) {
	client := openClient(t, addrs)
	box, quit, done := make(chan group.Event, 64), make(chan struct{}), make(chan struct{})
	c := carrier.New(carrier.Config{Session: 10 * time.Second, Rebalance: 10 * time.Second}, client, func(ev group.Event) {
		select {
		case box <- ev:
		case <-quit:
		}
	})
	m := group.New(group.Config{
		Group: app, Session: 10 * time.Second, Rebalance: 10 * time.Second, Heartbeat: 50 * time.Millisecond, ProcessID: [16]byte{process},
		TopologyVersion: 1, Rack: "r1", Tags: map[string]string{"zone": fmt.Sprint(process)},
	})
	go func() {
		defer close(done)
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		var running []task.ID
		todo := []group.Event{group.Start{Topology: group.Topology{
			Subtopologies: []group.Subtopology{{ID: 0, Topics: []string{"in"}, Hash: 1}}, Partitions: map[string]int32{"in": 4},
		}}}
		for {
			for len(todo) > 0 {
				ev := todo[0]
				todo = todo[1:]
				for _, a := range m.Step(time.Now(), ev) {
					switch a := a.(type) {
					case group.Wake:
						timer.Reset(time.Until(a.At))
					case group.Prepare:
						p := group.Prepared{Join: a.Join}
						for _, id := range running {
							if slices.ContainsFunc(a.Marks, func(k assignor.Mark) bool { return k.Task == id && k.Ready }) {
								p.Released = append(p.Released, id)
							} else {
								p.Claims = append(p.Claims, id)
							}
						}
						todo = append(todo, p)
					case group.Assigned:
						running = slices.Clone(a.Tasks)
					default:
						c.Carry(a)
					}
				}
			}
			select {
			case ev := <-box:
				todo = append(todo, ev)
			case <-timer.C:
				todo = append(todo, group.Tick{})
			case <-quit:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(quit)
		<-done
		c.Close()
	})
}

// isStable waits until whoever joins is in the group.
func isStable(t *testing.T, addrs []string, app string) {
	t.Helper()
	client := openClient(t, addrs)
	require.Eventually(t, func() bool {
		d, err := client.DescribeGroup(t.Context(), app)
		return err == nil && d.State == "Stable"
	}, 20*time.Second, 50*time.Millisecond)
}

func TestDescribeRunningGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		joins(t, addrs, app, 1)
		joins(t, addrs, app, 2)
		var v view
		args := []string{"group", "describe", "-brokers", addrs[0], "-app", app, "-offsets"}
		require.Eventually(t, func() bool {
			out, _, err := command(t, append(args, "-json")...)
			v = view{}
			if err != nil || json.Unmarshal([]byte(out), &v) != nil || len(v.Members) != 2 {
				return false
			}
			return len(v.Members[0].Active) == 2 && len(v.Members[1].Active) == 2
		}, 20*time.Second, 50*time.Millisecond)
		require.Equal(t, "Stable", v.State)
		require.Equal(t, group.Protocol, v.Protocol)
		require.Positive(t, v.Generation)
		require.Equal(t, 4, v.Tasks)
		require.Empty(t, v.Unassigned)
		require.Len(t, v.Partitions, 4)
		require.Equal(t, partitionView{Topic: "in", Partition: 0, Committed: -1, End: 0, Lag: -1}, v.Partitions[0])
		var active []string
		for _, m := range v.Members {
			require.Equal(t, "r1", m.Rack)
			require.NotEmpty(t, m.Host)
			require.Contains(t, []string{"01000000000000000000000000000000", "02000000000000000000000000000000"}, m.Process)
			for _, a := range m.Active {
				active = append(active, a.Task)
			}
		}
		require.ElementsMatch(t, []string{"0_0", "0_1", "0_2", "0_3"}, active)

		out, _, err := command(t, args...)
		require.NoError(t, err)
		require.Contains(t, out, "group       "+app)
		require.Contains(t, out, "tasks       4: 4 active")
		require.Contains(t, out, "in     3")
		requireStandardParts(t, addrs, app)
	})
}

// requireStandardParts reads the members' bytes as Kafka's own tools do.
func requireStandardParts(t *testing.T, addrs []string, app string) {
	d, err := openClient(t, addrs).DescribeGroup(t.Context(), app)
	require.NoError(t, err)
	var parts []int32
	for _, m := range d.Members {
		var meta kmsg.ConsumerMemberMetadata
		require.NoError(t, meta.ReadFrom(m.Metadata))
		require.Equal(t, []string{"in"}, meta.Topics)
		require.Equal(t, "r1", *meta.Rack)
		require.NotEmpty(t, meta.UserData)
		var plan kmsg.ConsumerMemberAssignment
		require.NoError(t, plan.ReadFrom(m.Assignment))
		require.NotEmpty(t, plan.UserData)
		require.Len(t, plan.Topics, 1)
		require.Equal(t, "in", plan.Topics[0].Topic)
		parts = append(parts, plan.Topics[0].Partitions...)
	}
	require.ElementsMatch(t, []int32{0, 1, 2, 3}, parts)
}

func TestDescribeMissingGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		_, _, err := command(t, "group", "describe", "-brokers", addrs[0], "-app", app)
		require.ErrorContains(t, err, fmt.Sprintf("there is no group %q", app))
	})
}

func TestDescribeForeignGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, addrs []string) {
		app, client := uniqueName(), openClient(t, addrs)
		addr := ""
		require.Eventually(t, func() bool {
			a, code, err := client.Coordinator(t.Context(), app)
			addr = a
			return err == nil && code == kcode.None
		}, 20*time.Second, 50*time.Millisecond)
		conn, err := client.DialGroup(t.Context(), addr, 20*time.Second)
		require.NoError(t, err)
		defer conn.Close()
		req := kafka.JoinRequest{Group: app, ProtocolType: "consumer", Protocol: "range", Session: 10 * time.Second, Rebalance: 10 * time.Second}
		res, err := conn.Join(req)
		require.NoError(t, err)
		if res.Code == kcode.MemberIDRequired {
			req.MemberID = res.MemberID
			res, err = conn.Join(req)
			require.NoError(t, err)
		}
		require.Equal(t, kcode.None, res.Code)
		_, err = conn.Sync(kafka.SyncRequest{
			Group: app, MemberID: res.MemberID, Generation: res.Generation, ProtocolType: "consumer", Protocol: "range",
			Assignments: []kafka.SyncAssignment{{MemberID: res.MemberID}},
		})
		require.NoError(t, err)
		_, _, err = command(t, "group", "describe", "-brokers", addrs[0], "-app", app)
		require.ErrorContains(t, err, `its members are consumers with the protocol "range"`)
	})
}

func TestGroupsWithoutABroker(t *testing.T) {
	for _, args := range [][]string{
		{"list"}, {"describe", "-app", "a"}, {"lag", "-app", "a"}, {"lag", "-app", "a", "-watch", "1s"}, {"reset", "-app", "a", "-to", "earliest", "-execute"}, {"delete", "-app", "a", "-execute"},
	} {
		_, _, err := command(t, append([]string{"group", args[0], "-brokers", "127.0.0.1:1", "-timeout", "2s"}, args[1:]...)...)
		require.ErrorContains(t, err, "127.0.0.1:1")
		require.ErrorContains(t, err, "check Brokers", args)
	}
}

func TestGroupsThatAreNotThere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		for _, args := range [][]string{{"lag"}, {"reset", "-to", "earliest"}, {"delete"}} {
			_, _, err := command(t, append([]string{"group", args[0], "-brokers", addrs[0], "-app", app}, args[1:]...)...)
			require.ErrorContains(t, err, fmt.Sprintf("there is none named %q", app), args)
			require.ErrorContains(t, err, "understudy group list", args)
		}
	})
}
