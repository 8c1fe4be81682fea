package streams

import (
	"context"
	"crypto/rand"
	mrand "math/rand/v2"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/consume"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/pattern"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/task"
)

// Consumer reads topics for a program that needs less than a topology: a loop around Poll, and commits.
//
//	c, err := streams.NewConsumer(streams.ConsumerConfig{Brokers: brokers, Group: "billing", Topics: []string{"orders"}})
//	if err != nil {
//		return err
//	}
//	defer c.Close(context.Background())
//	for ctx.Err() == nil {
//		records, err := c.Poll(ctx)
//		if err != nil {
//			return err
//		}
//		for _, r := range records {
//			bill(r)
//		}
//		if err := c.Commit(ctx); err != nil {
//			log.Print(err)
//		}
//	}
//
// The consumers of a group share the partitions of its topics. Heartbeats, fetching and rebalances go on in the background whatever the program
// does between two Polls; only what concerns the program waits for the next one: a partition that shall move to another member stays here
// until then, while all others go on. No goroutine of the consumer calls the program: listeners, stores and callbacks are called inside Poll,
// Commit and Close.
//
// Delivery is at least once: a partition begins where the last commit of it ends, so a record is returned again if its commit was not made,
// or refused. Within one assignment records of a partition are returned once and in their order, but for what Seek does. With
// [ConsumerConfig].Recovery what a crash has left behind comes beside what is new, each in its order.
//
// One goroutine polls. All other methods may be called from any.
type Consumer struct {
	cfg   ConsumerConfig
	shell *shell.Consumer
	log   *consumerLog
}

var (
	// ErrConsumerClosed is returned by the methods of a [Consumer] that was closed.
	ErrConsumerClosed = shell.ErrConsumerClosed
	// ErrPolling is returned by [Consumer.Poll] while another one is under way.
	ErrPolling = shell.ErrPolling
)

// NewConsumer checks the configuration and returns a consumer that has connected to nothing: the first Poll begins. All faults come at once,
// in a [*ConfigError].
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	client, err := kafka.Open(cfg.client())
	if err != nil {
		return nil, err
	}
	c := &Consumer{cfg: cfg, log: newConsumerLog(cfg.Log, cfg.Group)}
	sc, err := cfg.shell(client)
	if err != nil {
		return nil, err
	}
	sc.Tell, sc.Note = c.tell, c.log.note
	if o := cfg.Offsets; o != nil {
		sc.Load = func(ctx context.Context, parts []task.TopicPartition) (map[task.TopicPartition]int64, error) {
			return o.Load(ctx, cfg.Group, parts)
		}
		sc.Save = func(ctx context.Context, generation int32, offsets map[task.TopicPartition]int64) error {
			return o.Save(ctx, cfg.Group, generation, offsets)
		}
	}
	c.shell = shell.NewConsumer(sc)
	for tp, start := range cfg.Assign {
		if err := c.shell.Do(consume.Assign{Starts: map[task.TopicPartition]consume.Start{tp: start.start}}, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// shell describes the consumer to what carries it out.
func (c ConsumerConfig) shell(client *kafka.Client) (shell.ConsumerConfig, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return shell.ConsumerConfig{}, err
	}
	m := consume.Config{
		Group: group.Config{
			Group: c.Group, ProcessID: id, Session: c.Session, Rebalance: c.Rebalance, Heartbeat: c.Heartbeat, Rack: c.Rack, BackOff: c.Session / 6,
			Seed: mrand.Uint64(), //nolint:gosec // jitter only
		},
		Manual: c.Assign != nil, Topics: slices.Compact(slices.Sorted(slices.Values(c.Topics))), Wait: c.WaitForTopics,
		NoOffset: c.NoOffset.engine(engine.ResetEarliest), OutOfRange: c.OutOfRange.engine(engine.ResetStop),
		Own: c.Offsets != nil, AlsoKafka: c.AlsoCommitToKafka, CommitInterval: c.CommitInterval, RecoverAbove: c.recoverAbove(),
		Listens: c.Listener.Revoked != nil,
		Refresh: c.MetadataInterval, Memory: c.Memory,
	}
	if len(c.Include) > 0 {
		match, err := pattern.Compile(c.Include, c.Exclude)
		if err != nil {
			return shell.ConsumerConfig{}, err
		}
		m.Match = match.Match
	}
	return shell.ConsumerConfig{Machine: m, Client: client, ReadCommitted: c.ReadCommitted, Most: c.MaxPollRecords, Delete: c.DeleteGroupOnClose}, nil
}

// Poll returns records: what is there, or the next ones to come. It waits until ctx ends, and then returns what is there, which may be none
// and is no error; with a context that has ended already it never waits. Records of several partitions come in one answer, those of a partition
// together and in order; partitions take turns.
//
// An error that nothing mends ([*MissingTopicError], a group that refuses the member) is returned by each Poll. One of a partition that cannot be
// read on without a decision ([*OffsetOutOfRangeError], [*FetchError]) is returned once, and then by each Poll that finds nothing else, until
// Seek, Unassign or a rebalance ends it; the other partitions go on. While no broker answers, a [*BrokersError] says so once, and the consumer
// goes on trying.
//
// A call of Poll says that what the ones before have returned is done, as far as ConsumerConfig.CommitInterval is concerned.
func (c *Consumer) Poll(ctx context.Context) ([]ConsumerRecord, error) {
	var out []ConsumerRecord
	var headers []Header
	err := c.shell.Poll(ctx, func(chunk consume.Chunk) {
		out = slices.Grow(out, len(chunk.Records))
		for i := range chunk.Records {
			r := &chunk.Records[i]
			rec := ConsumerRecord{
				Topic: chunk.Topic, Partition: chunk.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Time: timeOf(r.Timestamp),
				Generation: chunk.Generation, Replayed: chunk.Replayed, life: chunk.Life,
			}
			if n := len(r.Headers); n > 0 {
				headers = append(headers, r.Headers...)
				rec.Headers = headers[len(headers)-n : len(headers) : len(headers)]
			}
			out = append(out, rec)
		}
	})
	return out, err
}

// State is where the consumer is in the life of a group's member.
func (c *Consumer) State() (s MemberState) {
	c.shell.Look(func(m *consume.Machine) { s = MemberState(m.State()) })
	return s
}

// Generation is the group's, under which partitions are here; -1 if there are none, or no group.
func (c *Consumer) Generation() (n int32) {
	c.shell.Look(func(m *consume.Machine) { n = m.Generation() })
	return n
}

// Close tells [ConsumerListener].Revoked of what is handed over, commits what earlier Polls than the last have returned if
// ConsumerConfig.CommitInterval says so, waits for commits that are under way, leaves the group, and ends all goroutines. A Poll that is under
// way returns ErrConsumerClosed. Commits that nobody takes, as no broker answers or the topic is gone, are given up after 15 s. When ctx ends
// first, what is left is left out, and the error says what; the consumer is closed all the same. A second Close does nothing.
func (c *Consumer) Close(ctx context.Context) error { return c.shell.Close(ctx) }

// Lag says how far the partitions that are read here are behind, by what the answers to fetches have told anyway: it asks nobody. While
// a partition is not fetched, as it is paused or enough of it is waiting to be polled, its End is the one that was told last. Stuck is not
// told: what does not move is what is not polled. Position is where fresh records are, and Offsets counts those that a crash has left behind too.
func (c *Consumer) Lag() []PartitionLag {
	lags := c.shell.Lags()
	out := make([]PartitionLag, len(lags))
	now := time.Now()
	for i, l := range lags {
		p := PartitionLag{Topic: l.Topic, Partition: l.Partition, Position: max(0, l.Position)}
		if p.Known = l.Position >= 0 && l.End >= 0; p.Known {
			p.End, p.Offsets = l.End, max(0, l.End-l.Position)+l.Behind
		}
		if p.Offsets > 0 && l.Last >= 0 {
			p.Time = max(0, now.Sub(time.UnixMilli(l.Last)))
		}
		out[i] = p
	}
	return out
}
