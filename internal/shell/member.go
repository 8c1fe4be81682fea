package shell

import (
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/group/carrier"
)

// newMember returns the carrier of the group's member, which answers to the core loop.
func newMember(r *Runtime) *carrier.Carrier {
	g := r.cfg.Engine.Group
	return carrier.New(carrier.Config{Session: g.Session, Rebalance: g.Rebalance, Guard: r.guardMember, Now: r.clock.now}, r.cfg.Client, func(ev group.Event) {
		r.post(engine.Member{Event: ev})
	})
}
