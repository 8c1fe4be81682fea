package main

import (
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// idle says of each user that there was nothing of for an hour.
type idle struct {
	seen *streams.StoreHandle[string, int64]
}

func (p *idle) Start(c *streams.Context[string, string]) error {
	c.Schedule(time.Minute, streams.StreamTime, p.look)
	return nil
}

func (p *idle) Process(_ *streams.Context[string, string], r streams.Record[string, string]) error {
	p.seen.Put(r.Key, r.Time.Unix())
	return nil
}

func (p *idle) look(c *streams.Context[string, string], now time.Time) error {
	for user, at := range p.seen.All() {
		if now.Unix()-at >= 3600 {
			c.Forward(streams.Record[string, string]{Key: user, Value: "idle"})
			p.seen.Delete(user)
		}
	}
	return nil
}

func idleUsers() *streams.Builder {
	b := streams.NewBuilder()
	seen := streams.NewStore("seen", serde.String, serde.Int64, streams.Ordered())
	b.Stream("clicks", serde.String, serde.String).
		Process("idle", func(init *streams.Init) streams.Processor[string, string, string, string] {
			return &idle{seen: seen.Open(init)}
		}, streams.WithStores(seen)).
		To("idle-users")
	return b
}
