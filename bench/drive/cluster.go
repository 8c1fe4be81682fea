package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 8

// cluster is the broker under the programs.
type cluster struct {
	brokers string
	client  *kgo.Client
	admin   *kadm.Client
}

func connect(brokers string) (*cluster, error) {
	c := &cluster{brokers: brokers}
	var err error
	if c.client, err = c.open(); err != nil {
		return nil, err
	}
	c.admin = kadm.NewClient(c.client)
	return c, nil
}

func (c *cluster) open(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(c.brokers, ",")...), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(256<<10), kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(200_000), kgo.MetadataMinAge(100*time.Millisecond))...)
}

func (c *cluster) close() { c.client.Close() }

// loadPartitioner is Kafka's: murmur2 of the key; keyless records in batches to one partition after the other.
func loadPartitioner() kgo.Partitioner { return kgo.UniformBytesPartitioner(8<<10, false, true, nil) }

// load fills the workload's input topic anew.
func (c *cluster) load(ctx context.Context, w workload) error {
	started := time.Now()
	if err := c.recreate(ctx, w.topic); err != nil {
		return err
	}
	writer, err := c.open(kgo.RecordPartitioner(loadPartitioner())) // a new one, because a client remembers the id of the topic that was there before
	if err != nil {
		return err
	}
	defer writer.Close()
	failed := make(chan error, 1)
	for k, v := range w.input() {
		writer.Produce(ctx, &kgo.Record{Topic: w.topic, Key: k, Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := writer.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("load %s: %w", w.topic, err)
	default:
	}
	log.Printf("loaded %d records into %s in %.1f s", w.records, w.topic, time.Since(started).Seconds())
	return nil
}

// recreate leaves the topic empty. A deletion is not done when the broker answers, so the creation is tried again.
func (c *cluster) recreate(ctx context.Context, topic string) error {
	if err := c.drop(ctx, topic); err != nil {
		return err
	}
	for {
		_, err := c.admin.CreateTopic(ctx, partitions, 1, nil, topic)
		if err == nil || !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
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
