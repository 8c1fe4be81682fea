package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrTopicExists is in the chain when a topic to create is there already.
var ErrTopicExists = errors.New("broker: topic exists")

// CreateTopic creates a topic with the broker's replication factor, and waits until every broker that answers knows it, and not one of before with
// its name: a busy one may hear of it seconds later.
func (c *Client) CreateTopic(ctx context.Context, topic string, partitions int32, configs map[string]string) error {
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	made, err := c.admin.CreateTopic(ctx, partitions, -1, values, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("%w: %q", ErrTopicExists, topic)
	}
	if err == nil {
		err = c.known(ctx, topic, made.ID, partitions)
	}
	return wrap("create topic "+topic, err)
}

// AddPartitions makes a topic one of so many partitions, and waits until every broker that answers, and this client, knows them.
func (c *Client) AddPartitions(ctx context.Context, topic string, partitions int32) error {
	res, err := c.admin.UpdatePartitions(ctx, int(partitions), topic)
	if err == nil {
		err = res.Error()
	}
	if err == nil {
		err = c.known(ctx, topic, kadm.TopicID{}, partitions)
	}
	if err == nil {
		err = c.producesTo(ctx, topic, partitions)
	}
	return wrap("add partitions to "+topic, err)
}

// known waits until every broker that answers knows a topic, by its id if that is given, and the leaders of its partitions.
func (c *Client) known(ctx context.Context, topic string, id kadm.TopicID, partitions int32) error {
	for _, b := range c.kgo.DiscoveredBrokers() {
		for {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
			res, err := b.Request(ctx, req)
			if err != nil && ctx.Err() == nil || err == nil && led(res.(*kmsg.MetadataResponse), id, partitions) {
				break // it is down, or knows it
			}
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// producesTo waits until the client knows the leaders of a topic's partitions, if it has produced to the topic: it remembers how many there were
// for minutes.
func (c *Client) producesTo(ctx context.Context, topic string, partitions int32) error {
	if leader, _, _ := c.kgo.PartitionLeader(topic, 0); leader < 0 {
		return nil
	}
	for {
		c.kgo.ForceMetadataRefresh()
		if leader, _, _ := c.kgo.PartitionLeader(topic, partitions-1); leader >= 0 {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// led says whether all topics of an answer are there, with at least so many partitions, each with a leader.
func led(res *kmsg.MetadataResponse, id kadm.TopicID, partitions int32) bool {
	for _, t := range res.Topics {
		if id != (kadm.TopicID{}) && t.TopicID != id {
			return false
		}
		if t.ErrorCode != 0 || len(t.Partitions) < int(partitions) || slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.ErrorCode != 0 || p.Leader < 0 }) {
			return false
		}
	}
	return true
}

// DeleteTopic deletes a topic. What was to be produced to it fails. One that is made anew under its name may be produced to.
func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	_, err := c.admin.DeleteTopic(ctx, topic)
	if err == nil {
		c.kgo.PurgeTopicsFromClient(topic) // it remembers the id
	}
	return wrap("delete topic "+topic, err)
}
