package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is the broker under the programs.
type cluster struct {
	brokers string
	client  *kgo.Client
	admin   *kadm.Client
	copies  int16           // of each partition of a topic that is made here
	loaded  map[string]bool // topics
	sums    sums
}

func connect(brokers string) (*cluster, error) {
	c := &cluster{brokers: brokers, copies: 1, loaded: map[string]bool{}, sums: sums{maphash.MakeSeed(), map[input]uint64{}}}
	var err error
	if c.client, err = c.open(); err != nil {
		return nil, err
	}
	c.admin = kadm.NewClient(c.client)
	return c, nil
}

func (c *cluster) open(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(c.brokers, ",")...), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(256<<10), kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(200_000), kgo.MetadataMinAge(100*time.Millisecond), kgo.RetryTimeout(patience), kgo.RecordDeliveryTimeout(time.Minute), kgo.UnknownTopicRetries(-1))...)
}

func (c *cluster) close() { c.client.Close() }

// loadPartitioner is Kafka's: murmur2 of the key; keyless records in batches to one partition after the other.
func loadPartitioner() kgo.Partitioner { return kgo.UniformBytesPartitioner(8<<10, false, true, nil) }

// load fills the topic of the input, unless that has been done.
func (c *cluster) load(ctx context.Context, in input) error {
	topic := in.topic()
	if c.loaded[topic] {
		return nil
	}
	started := time.Now()
	if err := c.recreate(ctx, topic, in.partitions, false); err != nil {
		return err
	}
	w, err := c.writer(topic)
	if err != nil {
		return err
	}
	for k, v := range in.all() {
		w.write(ctx, k, v)
	}
	if err := w.close(ctx); err != nil {
		return err
	}
	log.Printf("loaded %d records into %s in %.1f s", in.records, topic, time.Since(started).Seconds())
	c.loaded[topic] = true
	return nil
}

// unload drops the loaded topics, so that neither disk nor page cache grows over the parts.
func (c *cluster) unload(ctx context.Context) error {
	topics := slices.Collect(maps.Keys(c.loaded))
	clear(c.loaded)
	return c.drop(ctx, topics...)
}

// writer produces to a topic and remembers the first error.
type writer struct {
	topic  string
	client *kgo.Client
	failed chan error
}

// writer is a new client each time, because a client remembers the id of the topic that was there before.
func (c *cluster) writer(topic string, opts ...kgo.Opt) (*writer, error) {
	client, err := c.open(append(opts, kgo.RecordPartitioner(loadPartitioner()))...)
	return &writer{topic, client, make(chan error, 1)}, err
}

func (w *writer) write(ctx context.Context, k, v []byte) {
	w.produce(ctx, &kgo.Record{Topic: w.topic, Key: k, Value: v}, func(*kgo.Record) {})
}

// produce writes a record and calls confirmed when that has gone well.
func (w *writer) produce(ctx context.Context, r *kgo.Record, confirmed func(*kgo.Record)) {
	w.client.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err == nil {
			confirmed(r)
		} else {
			select {
			case w.failed <- err:
			default:
			}
		}
	})
}

// close waits until everything is written.
func (w *writer) close(ctx context.Context) error {
	defer w.client.Close()
	if err := w.client.Flush(ctx); err != nil {
		return err
	}
	return w.trouble()
}

// trouble is the first error of those that have come so far.
func (w *writer) trouble() error {
	select {
	case err := <-w.failed:
		return fmt.Errorf("write to %s: %w", w.topic, err)
	default:
		return nil
	}
}

// recreate leaves the topic empty, with leaders for all partitions. A deletion is not done when the broker answers, so the creation is tried again.
func (c *cluster) recreate(ctx context.Context, topic string, partitions int32, stamps bool) error {
	if err := c.drop(ctx, topic); err != nil {
		return err
	}
	var configs map[string]*string
	if stamps {
		configs = map[string]*string{"message.timestamp.type": kadm.StringPtr("LogAppendTime")}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := c.admin.CreateTopic(ctx, partitions, c.copies, configs, topic)
		if err == nil {
			return c.led(ctx, topic, int(partitions), deadline)
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// led waits until the topic's ends can be asked for, which takes a leader each.
func (c *cluster) led(ctx context.Context, topic string, partitions int, deadline time.Time) error {
	for {
		ends, _, err := c.ends(ctx, topic)
		if err == nil && len(ends[topic]) == partitions {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s has %d partitions with leaders, want %d: %w", topic, len(ends[topic]), partitions, err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// members says whether the group is stable and has members, and whether it has none.
func (c *cluster) members(ctx context.Context, group string) (stable, empty bool, err error) {
	stable, n, err := c.group(ctx, group)
	return stable && n > 0, err == nil && n == 0, err
}

// group says whether the group is stable, and how many members it has.
func (c *cluster) group(ctx context.Context, group string) (stable bool, members int, err error) {
	groups, err := c.admin.DescribeGroups(ctx, group)
	if err != nil {
		return false, 0, err
	}
	g := groups[group]
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return false, 0, g.Err
	}
	return g.State == "Stable", len(g.Members), nil
}

// coordinator is the number of the broker that coordinates the group.
func (c *cluster) coordinator(ctx context.Context, group string) (int, error) {
	found := c.admin.FindGroupCoordinators(ctx, group)[group]
	return int(found.NodeID), found.Err
}

// ready waits until the broker can coordinate groups: it makes the topic of the offsets when it is first asked, and that is not to be the first
// program's trouble.
func (c *cluster) ready(ctx context.Context) error {
	return c.await(ctx, "bench-nobody", time.Minute, func(_, empty bool) bool { return empty })
}

// await looks until the group is as it should be.
func (c *cluster) await(ctx context.Context, group string, patience time.Duration, ok func(stable, empty bool) bool) error {
	for deadline := time.Now().Add(patience); ; {
		stable, empty, err := c.members(ctx, group)
		if err == nil && ok(stable, empty) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("group %s after %s: stable %v, empty %v, %v", group, patience, stable, empty, err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *cluster) drop(ctx context.Context, topics ...string) error {
	if len(topics) == 0 {
		return nil
	}
	answers, err := c.admin.DeleteTopics(ctx, topics...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Err != nil && !errors.Is(a.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete topic %s: %w", a.Topic, a.Err)
		}
	}
	return nil
}

// internal lists the topics that an application made for itself.
func (c *cluster) internal(ctx context.Context, app, suffix string) ([]string, error) {
	topics, err := c.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range topics.Names() {
		if strings.HasPrefix(t, app+"-") && strings.HasSuffix(t, suffix) {
			names = append(names, t)
		}
	}
	return names, nil
}

// forget deletes the topics that an application made for itself. Its group is left to expire: no other run has its name.
func (c *cluster) forget(ctx context.Context, app string) error {
	topics, err := c.internal(ctx, app, "")
	if err != nil {
		return err
	}
	return c.drop(ctx, topics...)
}

// ends returns the end offsets of the topics, and their sum.
func (c *cluster) ends(ctx context.Context, topics ...string) (kadm.ListedOffsets, int64, error) {
	if len(topics) == 0 {
		return nil, 0, nil // no name would mean every topic
	}
	listed, err := c.admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = listed.Error()
	}
	var sum int64
	listed.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return listed, sum, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
