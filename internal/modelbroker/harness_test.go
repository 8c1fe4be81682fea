package modelbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world drives a model by hand and sorts its answers by request.
type world struct {
	t        require.TestingT
	b        *Broker
	now      time.Time
	lastID   uint64
	answered map[uint64]Response
	when     map[uint64]time.Time
	closed   map[Conn]bool
}

func newWorld(t require.TestingT, cfg Config) *world {
	return &world{t: t, b: New(cfg), now: epoch, answered: map[uint64]Response{}, when: map[uint64]time.Time{}, closed: map[Conn]bool{}}
}

func (w *world) take() {
	for _, a := range w.b.Answers() {
		if a.Closed {
			w.closed[a.Conn] = true
			continue
		}
		require.NotContains(w.t, w.answered, a.ID, "answered twice")
		w.answered[a.ID], w.when[a.ID] = a.Body, w.now
	}
}

func (w *world) dial(node int32) Conn {
	c, err := w.b.Dial(node)
	require.NoError(w.t, err)
	return c
}

func (w *world) sendOn(c Conn, r Request) uint64 {
	w.lastID++
	w.b.Receive(w.now, c, w.lastID, r)
	w.take()
	return w.lastID
}

// send sends on a connection of its own.
func (w *world) send(node int32, r Request) uint64 { return w.sendOn(w.dial(node), r) }

func (w *world) parked(id uint64) bool {
	_, ok := w.answered[id]
	return !ok
}

// do sends a request that must be answered at once.
func do[R Response](w *world, node int32, r Request) R {
	return got[R](w, w.send(node, r))
}

func got[R Response](w *world, id uint64) R {
	require.Contains(w.t, w.answered, id, "parked")
	require.IsType(w.t, *new(R), w.answered[id])
	return w.answered[id].(R)
}

// wait lets time pass, with a call to Advance at each Wake on the way.
func (w *world) wait(d time.Duration) {
	end := w.now.Add(d)
	for {
		at, ok := w.b.Wake()
		if !ok || at.After(end) {
			break
		}
		w.now = later(w.now, at)
		w.b.Advance(w.now)
		w.take()
	}
	w.now = end
	w.b.Advance(w.now)
	w.take()
}

func tp(topic string, partition int32) task.TopicPartition {
	return task.TopicPartition{Topic: topic, Partition: partition}
}

// party is a member of the group "g" on node 0, as a client sees itself.
type party struct {
	w                  *world
	id                 string
	gen                int32
	bytes              string
	session, rebalance time.Duration
	join               uint64
}

func (w *world) party(bytes string) *party {
	return &party{w: w, bytes: bytes, session: 10 * time.Second, rebalance: 15 * time.Second}
}

func (p *party) request() JoinGroupRequest {
	return JoinGroupRequest{
		Group: "g", MemberID: p.id, Session: p.session, Rebalance: p.rebalance, ProtocolType: "consumer",
		Protocols: []Protocol{{Name: "learner-v1", Metadata: []byte(p.bytes)}},
	}
}

// enter sends JoinGroup, twice if an id has to be fetched first.
func (p *party) enter() *party {
	if p.id == "" {
		r := do[JoinGroupResponse](p.w, 0, p.request())
		require.Equal(p.w.t, kcode.MemberIDRequired, r.Code)
		p.id = r.MemberID
	}
	p.join = p.w.send(0, p.request())
	return p
}

// rejoin enters with other bytes.
func (p *party) rejoin() *party {
	p.bytes += "'"
	return p.enter()
}

// joined takes the answer to the join and its generation.
func (p *party) joined() JoinGroupResponse {
	r := got[JoinGroupResponse](p.w, p.join)
	require.Equal(p.w.t, kcode.None, r.Code)
	p.gen = r.Generation
	return r
}

func (p *party) syncRequest(plan ...Assignment) SyncGroupRequest {
	return SyncGroupRequest{Group: "g", MemberID: p.id, Generation: p.gen, ProtocolType: "consumer", Protocol: "learner-v1", Plan: plan}
}

func (p *party) sync(plan ...Assignment) uint64 { return p.w.send(0, p.syncRequest(plan...)) }

func (p *party) beat() kcode.Code { return p.beatAt(p.gen) }

func (p *party) beatAt(gen int32) kcode.Code {
	return do[HeartbeatResponse](p.w, 0, HeartbeatRequest{Group: "g", MemberID: p.id, Generation: gen}).Code
}

func (p *party) commitAt(gen int32) kcode.Code {
	return p.w.commit(p.id, gen, task.InputOffset{TopicPartition: tp("in", 0), Offset: 1})[0]
}

func (w *world) commit(id string, gen int32, offsets ...task.InputOffset) []kcode.Code {
	return do[OffsetCommitResponse](w, 0, OffsetCommitRequest{Group: "g", MemberID: id, Generation: gen, Offsets: offsets}).Codes
}

func (p *party) leave() kcode.Code {
	r := do[LeaveGroupResponse](p.w, 0, LeaveGroupRequest{Group: "g", MemberIDs: []string{p.id}})
	require.Equal(p.w.t, kcode.None, r.Code)
	return r.Members[0]
}

// settle joins all parties, has the leader give each its plan "for <bytes>", and leaves the group stable.
func (w *world) settle(ps ...*party) {
	for _, p := range ps {
		p.enter()
	}
	for {
		again := false
		for _, p := range ps {
			if !w.parked(p.join) {
				p.joined()
			}
		}
		for _, p := range ps {
			if !w.parked(p.join) && p.beat() == kcode.RebalanceInProgress {
				p.enter()
				again = true
			}
		}
		if !again {
			break
		}
	}
	w.plan(ps...)
}

// plan has all parties, which have joined, synchronise.
func (w *world) plan(ps ...*party) {
	var plan []Assignment
	for _, p := range ps {
		plan = append(plan, Assignment{MemberID: p.id, Bytes: []byte("for " + p.bytes)})
	}
	ids := make([]uint64, len(ps))
	for i, p := range ps {
		if r := p.joined(); r.Leader == p.id {
			ids[i] = p.sync(plan...)
		} else {
			ids[i] = p.sync()
		}
	}
	for i, p := range ps {
		require.Equal(w.t, SyncGroupResponse{Assignment: []byte("for " + p.bytes)}, got[SyncGroupResponse](w, ids[i]))
	}
	require.Equal(w.t, Stable, w.b.Group("g").State)
}

// groupWorld has the coordinator of "g" on its only node and a topic "in".
func groupWorld(t *testing.T) *world {
	return newWorld(t, Config{Brokers: 1, MinSession: time.Millisecond, Seed: 1, Topics: map[string]TopicConfig{"in": {Partitions: 400}}})
}

func outs(keys ...string) []task.OutRecord {
	var rs []task.OutRecord
	for i, k := range keys {
		rs = append(rs, task.OutRecord{Key: []byte(k), Value: fmt.Appendf(nil, "%s%d", k, i), Timestamp: epoch.UnixMilli()})
	}
	return rs
}
