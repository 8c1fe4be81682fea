package kafka

import (
	"cmp"
	"context"
	"slices"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// Metadata is what one broker told of the cluster.
type Metadata struct {
	Brokers    []Broker // by id
	Controller int32
	Topics     map[string]*Topic
}

// Broker is a node of the cluster.
type Broker struct {
	ID   int32
	Addr string
}

// Topic is a topic as metadata tells it. A topic that does not exist has Err UnknownTopicOrPartition.
type Topic struct {
	ID         [16]byte // zero where the broker gives none
	Err        kcode.Code
	Partitions []Partition // by number, without gaps
}

// Partition is one partition. Leader is -1 while there is none.
type Partition struct {
	Leader      int32
	LeaderEpoch int32
	Err         kcode.Code
}

// noTopic cannot be a topic. sarama takes an empty list for "all topics", so the brokers alone are had by asking for this.
const noTopic = "/"

// Metadata asks for the topics named, for all if topics is nil, for none (brokers only) if it is empty. It tries every known broker in turn.
// A topic is never created by asking.
func (c *Client) Metadata(ctx context.Context, topics []string) (*Metadata, error) {
	none := topics != nil && len(topics) == 0
	if none {
		topics = []string{noTopic}
	}
	req := sarama.NewMetadataRequest(c.settings.conf.Version, topics)
	req.AllowAutoTopicCreation = false
	var res *sarama.MetadataResponse
	err := c.anyBroker(ctx, "Metadata", func(k *conn) (err error) {
		res, err = k.broker.GetMetadata(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	m := &Metadata{Controller: res.ControllerID, Topics: make(map[string]*Topic, len(res.Topics))}
	for _, b := range res.Brokers {
		m.Brokers = append(m.Brokers, Broker{ID: b.ID(), Addr: b.Addr()})
	}
	slices.SortFunc(m.Brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range res.Topics {
		if !none {
			m.Topics[t.Name] = topicOf(t)
		}
	}
	c.learn(m.Brokers)
	return m, nil
}

// maxPartitions bounds what the numbers in an answer are believed, as the holes between them are filled. No cluster has as many.
const maxPartitions = 1 << 20

func topicOf(t *sarama.TopicMetadata) *Topic {
	out := &Topic{ID: t.Uuid, Err: kcode.Code(t.Err)}
	slices.SortFunc(t.Partitions, func(a, b *sarama.PartitionMetadata) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range t.Partitions {
		if p.ID < int32(len(out.Partitions)) || p.ID >= maxPartitions {
			continue // no number of a partition, or one that is there already
		}
		// A hole in the numbers would shift all that follow, so it is filled with a partition without a leader.
		for int32(len(out.Partitions)) < p.ID {
			out.Partitions = append(out.Partitions, Partition{Leader: -1, LeaderEpoch: -1, Err: kcode.LeaderNotAvailable})
		}
		out.Partitions = append(out.Partitions, Partition{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Err: kcode.Code(p.Err)})
	}
	return out
}

// learn replaces the known brokers, and closes connections to those that are gone. An empty answer, which a broker that is starting may give, is not believed.
func (c *Client) learn(brokers []Broker) {
	if len(brokers) == 0 {
		return
	}
	c.mu.Lock()
	clear(c.addrs)
	known := slices.Clone(c.brokers)
	for _, b := range brokers {
		c.addrs[b.ID] = b.Addr
		known = append(known, b.Addr)
	}
	var gone []*shared
	for addr, s := range c.ctrl {
		if !slices.Contains(known, addr) {
			gone = append(gone, s)
		}
	}
	c.mu.Unlock()
	for _, s := range gone {
		select {
		case s.token <- struct{}{}: // nobody is in a call, and nobody may come along to find that the broker has hung up
			s.drop()
			<-s.token
		default:
		}
	}
}
