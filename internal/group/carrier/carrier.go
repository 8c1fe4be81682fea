// Package carrier is the shell of a group member: it carries out what group.Machine decides, over two connections of its own (join and
// sync; heartbeat and leave), and posts the answers as events. The third connection, for offsets, is whoever commits's.
//
// It stands beside the machine's package and not in it, so that the machine and whatever embeds it import no client library.
package carrier

import (
	"context"
	"time"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
)

// Config says how long calls may take.
type Config struct {
	Now       func() time.Time // the clock that the machine is given; nil is time.Now
	Session   time.Duration    // a heartbeat may take a third of it, so that a dead connection is replaced before the lease ends
	Rebalance time.Duration    // a join may be parked for as long
	// Guard is deferred by every goroutine, so that it can recover from a panic there. It may be nil.
	Guard func()
}

const (
	joinSlack    = 5 * time.Second // beyond the rebalance timeout
	leaveTimeout = 2 * time.Second // nobody waits longer for a clean goodbye
	protocolType = "consumer"
)

// Carrier executes the actions of one member. Carry and Close are called from one goroutine; the callback is called from others.
type Carrier struct {
	client *kafka.Client
	post   func(group.Event)
	guard  func()
	now    func() time.Time
	ctx    context.Context
	stop   context.CancelFunc
	find   *line
	join   *line
	beat   *line
}

// New returns a Carrier without a connection. Post is given the answers; it must not block.
func New(cfg Config, client *kafka.Client, post func(group.Event)) *Carrier {
	c := &Carrier{client: client, post: post, guard: cfg.Guard, now: cfg.Now}
	if c.guard == nil {
		c.guard = func() {}
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.find = newLine(c, 0)
	c.join = newLine(c, cfg.Rebalance+joinSlack)
	c.beat = newLine(c, max(cfg.Session/3, 100*time.Millisecond))
	return c
}

// Carry carries an action out. It does not block; what is no request is ignored.
func (c *Carrier) Carry(a group.Action) {
	switch a := a.(type) {
	case group.FindCoordinator:
		c.find.do(func() { c.coordinator(a) })
	case group.SendJoin:
		c.join.do(func() { c.sendJoin(a) })
	case group.SendSync:
		c.join.do(func() { c.sendSync(a) })
	case group.SendHeartbeat:
		c.beat.do(func() { c.sendHeartbeat(a) })
	case group.SendLeave:
		c.join.drop() // a join of ours that is parked would outlive the membership
		c.beat.do(func() { c.sendLeave(a) })
	case group.Disconnect:
		c.join.drop()
		c.beat.drop()
	}
}

// Close closes the connections at once, under parked calls too, and waits until no callback will come any more.
func (c *Carrier) Close() {
	c.stop()
	for _, l := range []*line{c.find, c.join, c.beat} {
		l.close()
	}
}

func (c *Carrier) coordinator(a group.FindCoordinator) {
	addr, code, err := c.client.Coordinator(c.ctx, a.Group)
	c.post(group.CoordinatorFound{Req: a.Req, Addr: addr, Code: code, Err: err})
}

func (c *Carrier) sendJoin(a group.SendJoin) {
	fail.Point("join.before")
	sent := c.now()
	ev := group.JoinDone{Req: a.Req, Sent: sent}
	var res kafka.JoinResponse
	ev.Err = c.join.call(a.Addr, func(conn *kafka.GroupConn) (err error) {
		res, err = conn.Join(kafka.JoinRequest{
			Group: a.Group, MemberID: a.MemberID, ProtocolType: protocolType, Protocol: a.Protocol, Metadata: a.Metadata,
			Session: a.Session, Rebalance: a.Rebalance, Reason: a.Reason,
		})
		return err
	})
	fail.Point("join.answered")
	ev.Code, ev.MemberID, ev.Generation, ev.Leader = res.Code, res.MemberID, res.Generation, res.MemberID != "" && res.Leader == res.MemberID
	for _, m := range res.Members {
		ev.Members = append(ev.Members, group.JoinedMember{ID: m.MemberID, Metadata: m.Metadata})
	}
	c.post(ev)
}

func (c *Carrier) sendSync(a group.SendSync) {
	fail.Point("sync.before")
	ev := group.SyncDone{Req: a.Req, Sent: c.now()}
	req := kafka.SyncRequest{Group: a.Group, MemberID: a.MemberID, Generation: a.Generation, ProtocolType: protocolType, Protocol: a.Protocol}
	for _, x := range a.Assignments {
		req.Assignments = append(req.Assignments, kafka.SyncAssignment{MemberID: x.MemberID, Assignment: x.Bytes})
	}
	ev.Err = c.join.call(a.Addr, func(conn *kafka.GroupConn) error {
		res, err := conn.Sync(req)
		ev.Code, ev.Assignment = res.Code, res.Assignment
		return err
	})
	fail.Point("sync.answered")
	c.post(ev)
}

func (c *Carrier) sendHeartbeat(a group.SendHeartbeat) {
	ev := group.HeartbeatDone{Req: a.Req, Sent: c.now()}
	ev.Err = c.beat.call(a.Addr, func(conn *kafka.GroupConn) (err error) {
		ev.Code, err = conn.Heartbeat(kafka.HeartbeatRequest{Group: a.Group, MemberID: a.MemberID, Generation: a.Generation})
		return err
	})
	c.post(ev)
}

func (c *Carrier) sendLeave(a group.SendLeave) {
	timer := time.AfterFunc(leaveTimeout, c.beat.drop)
	defer timer.Stop()
	fail.Point("leave.before")
	ev := group.LeaveDone{Req: a.Req, Code: kcode.None}
	ev.Err = c.beat.call(a.Addr, func(conn *kafka.GroupConn) (err error) {
		ev.Code, err = conn.Leave(kafka.LeaveRequest{Group: a.Group, MemberID: a.MemberID, Reason: "the member has stopped"})
		return err
	})
	fail.Point("leave.answered")
	c.post(ev)
}
