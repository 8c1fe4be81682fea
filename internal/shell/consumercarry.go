package shell

import (
	"context"
	"time"

	"github.com/understudy-streams/understudy/internal/consume"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// carryAll carries out what the machine says, with the lock held: none of it blocks.
func (c *Consumer) carryAll(actions []consume.Action) {
	news := false
	for _, a := range actions {
		switch a := a.(type) {
		case consume.MemberAction:
			if _, all := a.Action.(group.Disconnect); all {
				c.offsets.reset()
			}
			c.member.Carry(a.Action)
		case consume.RefreshMetadata:
			c.request(func(ctx context.Context) { c.refresh(ctx, a.Topics) })
		case consume.FetchOffsets:
			c.offsets.fetch(a.Coordinator, a.Parts, func(res kafka.FetchOffsetsResponse, err error) {
				c.step(consume.OffsetsFetched{Request: a.Request, Err: err, Code: res.Code, Offsets: offsetsOf(res)})
			})
		case consume.ListOffsets:
			c.request(func(ctx context.Context) { c.list(ctx, a) })
		case consume.CommitOffsets:
			req := kafka.CommitRequest{MemberID: a.MemberID, Generation: a.Generation, Offsets: a.Offsets}
			c.offsets.commit(a.Coordinator, req, func(res kafka.CommitResponse, err error) {
				c.step(consume.OffsetsCommitted{Request: a.Request, Err: err, Codes: codesOf(res)})
			})
		case consume.Fetch:
			c.fetch.event(a.Purpose, a.Broker, a.Event)
		case consume.Recycle:
			c.cfg.Client.Recycle(a.Batches)
		case consume.Answer:
			c.answer(a)
			news = true
		case consume.Note:
			c.cfg.Note(a)
		case consume.Ready:
			news = true
		case consume.Wake:
			c.timer.Reset(max(a.At.Sub(c.clock.now()), 0))
		case consume.Ended:
			c.ended, news = true, true
		}
	}
	if news {
		c.announce()
	}
}

// answer tells the outcome of a commit to whoever waits for it.
func (c *Consumer) answer(a consume.Answer) {
	if ch := c.waiting[a.ID]; ch != nil {
		delete(c.waiting, a.ID)
		ch <- a.Err
	}
	if f := c.callbacks[a.ID]; f != nil {
		delete(c.callbacks, a.ID)
		c.due = append(c.due, func() { f(a.Err) })
	}
}

func (c *Consumer) refresh(ctx context.Context, topics []string) {
	md, err := c.cfg.Client.Metadata(ctx, topics)
	if err != nil {
		c.step(consume.Metadata{Err: withAddresses(err)})
		return
	}
	ev := consume.Metadata{Topics: map[string]consume.Topic{}}
	for name, t := range md.Topics {
		switch t.Err {
		case kcode.None:
			topic := consume.Topic{ID: t.ID, Leaders: make([]engine.Leader, len(t.Partitions))}
			for i, p := range t.Partitions {
				topic.Leaders[i] = engine.Leader{Broker: p.Leader, Epoch: p.LeaderEpoch}
			}
			ev.Topics[name] = topic
		case kcode.UnknownTopicOrPartition:
		case kcode.TopicAuthorizationFailed, kcode.InvalidTopic:
			ev.Topics[name] = consume.Topic{Refused: &engine.FetchError{Part: task.TopicPartition{Topic: name}, Offset: -1, Code: t.Err}}
		default: // it is there, and more cannot be said now
			ev.Topics[name] = consume.Topic{}
		}
	}
	c.step(ev)
}

// list asks the logs, at each kind of place at once.
func (c *Consumer) list(ctx context.Context, a consume.ListOffsets) {
	ev := consume.OffsetsListed{Request: a.Request, Offsets: map[consume.Ask]int64{}}
	latest := kafka.Latest
	if c.cfg.ReadCommitted {
		latest = kafka.Stable
	}
	take := func(asks []consume.Ask, got map[task.TopicPartition]kafka.ListedOffset, err error) (none []consume.Ask) {
		if err != nil {
			ev.Err = err
		}
		for _, ask := range asks {
			switch o, has := got[ask.TopicPartition]; {
			case !has:
			case o.Err != nil:
				ev.Err = o.Err
			case o.Offset < 0:
				none = append(none, ask)
			default:
				ev.Offsets[ask] = o.Offset
			}
		}
		return none
	}
	at := func(where kafka.At, asks []consume.Ask) {
		if len(asks) > 0 {
			got, err := c.cfg.Client.ListOffsets(ctx, where, partsOf(asks))
			take(asks, got, err)
		}
	}
	kinds := map[consume.At][]consume.Ask{}
	for _, ask := range a.Asks {
		kinds[ask.Start.At] = append(kinds[ask.Start.At], ask)
	}
	if asks := kinds[consume.Timestamp]; len(asks) > 0 {
		times := map[task.TopicPartition]time.Time{}
		for _, ask := range asks {
			times[ask.TopicPartition] = time.UnixMilli(ask.Start.Value)
		}
		got, err := c.cfg.Client.ListOffsetsSince(ctx, times)
		at(latest, take(asks, got, err)) // where no record is as new
	}
	at(kafka.Earliest, kinds[consume.Earliest])
	at(latest, kinds[consume.Latest])
	ev.Err = withAddresses(ev.Err)
	c.step(ev)
}

func partsOf(asks []consume.Ask) []task.TopicPartition {
	out := make([]task.TopicPartition, len(asks))
	for i, a := range asks {
		out[i] = a.TopicPartition
	}
	return out
}
