package modelbroker

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// GroupState is the state of a group at its coordinator.
type GroupState string

// The states of a group.
//
//	Empty -> PreparingRebalance -> CompletingRebalance -> Stable
//	              ^  |                   |                  |
//	              |  +--> Empty          |                  |
//	              +----------------------+------------------+
const (
	Empty               GroupState = "Empty"
	PreparingRebalance  GroupState = "PreparingRebalance"
	CompletingRebalance GroupState = "CompletingRebalance"
	Stable              GroupState = "Stable"
)

type group struct {
	b       *Broker
	name    string
	node    int32  // its coordinator
	loading *timer // while the coordinator loads it
	durable stored
	exists  bool

	state, before                  GroupState
	generation                     int32
	protocolType, protocol, leader string
	members                        []*member // in the order in which they joined
	pending                        []pendingMember
	newMember                      bool // one came while the first rebalance is delayed
	joinTimer, syncTimer           *timer

	offsets  map[task.TopicPartition]committed
	unstable map[task.TopicPartition]bool // a transactional offset is pending
}

type member struct {
	id                 string
	session, rebalance time.Duration
	protocols          []Protocol
	assignment         []byte
	join, sync         *ticket // parked
	isNew              bool    // has not seen a barrier end
	owesSync           bool
	expiry             *timer
}

// pendingMember has been given an id and has not come back with it.
type pendingMember struct {
	id     string
	expiry *timer
}

// newMemberTimeout evicts a member that waits for its first barrier, whose session does not run.
const newMemberTimeout = 5 * time.Minute

// recordLimit is max.message.bytes of __consumer_offsets: a group, or one commit, is one batch there.
const recordLimit = 1_048_588

// create makes the group exist, empty, and stores that.
func (g *group) create() {
	g.exists, g.state, g.before = true, Empty, Empty
	g.store()
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func (m *member) speaks(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

func (g *group) member(id string) *member {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// newMemberID makes up an id of the length that a broker's have.
func (g *group) newMemberID() string {
	return fmt.Sprintf("member-%016x%016x", g.b.rng.Uint64(), g.b.rng.Uint64())
}

// beat starts the member's session anew.
func (g *group) beat(m *member) { g.expireIn(m, m.session) }

func (g *group) expireIn(m *member, d time.Duration) {
	m.expiry.stop()
	m.expiry = g.b.after(d, func() {
		// A parked member is alive as long as it is parked, unless it waits for its first barrier.
		if m.isNew || m.join == nil && m.sync == nil {
			g.remove(m)
		}
	})
}

func (g *group) transition(to GroupState) {
	g.before, g.state = g.state, to
}

// rebalanceTimeout is the largest of the members'.
func (g *group) rebalanceTimeout() time.Duration {
	d := time.Duration(0)
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// drop takes a member out without doing anything about it.
func (g *group) drop(m *member) {
	m.expiry.stop()
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	if g.leader == m.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// remove takes a member out and has the others rebalance.
func (g *group) remove(m *member) {
	g.endJoin(m, refusedJoin(kcode.UnknownMemberID, ""))
	g.drop(m)
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepare()
	case PreparingRebalance:
		g.gone()
	}
}

func (g *group) endJoin(m *member, r JoinGroupResponse) {
	if m.join != nil {
		t := m.join
		m.join = nil
		g.b.answer(t, r)
	}
}

func (g *group) endSync(m *member, r SyncGroupResponse) {
	if m.sync != nil {
		t := m.sync
		m.sync = nil
		g.b.answer(t, r)
	}
}

func sameProtocols(a, b []Protocol) bool {
	return slices.EqualFunc(a, b, func(x, y Protocol) bool { return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata) })
}

// common says whether all members speak the protocol.
func (g *group) common(protocol string) bool {
	return !slices.ContainsFunc(g.members, func(m *member) bool { return !m.speaks(protocol) })
}

// selectProtocol lets each member vote for the first of its protocols that all speak; the name decides a draw.
func (g *group) selectProtocol() string {
	votes := map[string]int{}
	var names []string
	for _, m := range g.members {
		i := slices.IndexFunc(m.protocols, func(p Protocol) bool { return g.common(p.Name) })
		if i < 0 {
			continue
		}
		name := m.protocols[i].Name
		if votes[name]++; votes[name] == 1 {
			names = append(names, name)
		}
	}
	return slices.MaxFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[a], votes[b]), -cmp.Compare(a, b))
	})
}
