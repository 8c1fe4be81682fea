package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/task"
)

// Client puts records in and takes them out, for tests and examples. It works on any Kafka broker. It is safe for concurrent use.
type Client struct {
	addrs []string
	opts  []kgo.Opt
	kgo   *kgo.Client
	admin *kadm.Client

	mu      sync.Mutex
	renewed map[string]kadm.TopicID // of topics that were made anew
}

// NewClient connects to brokers. The options are for TLS, SASL and the like.
func NewClient(addrs []string, opts ...kgo.Opt) (*Client, error) {
	c := &Client{addrs: addrs, opts: opts, renewed: map[string]kadm.TopicID{}}
	var err error
	c.kgo, err = c.open(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(16<<20), kgo.BrokerMaxWriteBytes(32<<20))
	if err != nil {
		return nil, err
	}
	c.admin = kadm.NewClient(c.kgo)
	return c, nil
}

func (c *Client) open(opts ...kgo.Opt) (*kgo.Client, error) {
	// Whoever makes topics, and deletes them, does not want to wait for seconds until the client looks again.
	all := append([]kgo.Opt{kgo.SeedBrokers(c.addrs...), kgo.MetadataMinAge(50 * time.Millisecond)}, c.opts...)
	k, err := kgo.NewClient(append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("broker: client: %w", err)
	}
	return k, nil
}

// Close ends the connections.
func (c *Client) Close() { c.kgo.Close() }

// DeleteRecords deletes the records of a partition below an offset.
func (c *Client) DeleteRecords(ctx context.Context, tp task.TopicPartition, before int64) error {
	os := kadm.Offsets{}
	os.AddOffset(tp.Topic, tp.Partition, before, -1)
	res, err := c.admin.DeleteRecords(ctx, os)
	if err == nil {
		err = res.Error()
	}
	return wrap("delete records of "+tp.String(), err)
}

// Produce appends records to a partition and waits for the acknowledgement. A timestamp of 0 is one, not "now".
func (c *Client) Produce(ctx context.Context, tp task.TopicPartition, records ...task.OutRecord) error {
	for {
		err := c.kgo.ProduceSync(ctx, outgoing(tp, records)...).FirstErr()
		remade := errors.Is(err, kerr.UnknownTopicID)
		if !errors.Is(err, kerr.UnknownTopicOrPartition) && !remade || !c.has(ctx, tp, remade) {
			return wrap("produce to "+tp.String(), err)
		}
	}
}

// has says, after a while, whether a topic has a partition: a leader may have heard of a topic that was just made later than others have. Another
// client may have made it anew; it is produced to by its new id then.
func (c *Client) has(ctx context.Context, tp task.TopicPartition, remade bool) bool {
	if sleep(ctx, 100*time.Millisecond) != nil {
		return false
	}
	topics, err := c.admin.ListTopics(ctx, tp.Topic)
	if err != nil || topics.Error() != nil || len(topics[tp.Topic].Partitions) <= int(tp.Partition) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := topics[tp.Topic].ID; remade && c.renewed[tp.Topic] != id { // once: what others have begun to produce by the new id would fail
		c.renewed[tp.Topic] = id
		c.kgo.PurgeTopicsFromClient(tp.Topic)
	}
	return true
}

// Transact produces records in one transaction and commits or aborts it, under a transactional id. A real broker writes the marker a little
// after the end was answered.
func (c *Client) Transact(ctx context.Context, id string, commit bool, tp task.TopicPartition, records ...task.OutRecord) error {
	k, err := c.open(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(id), kgo.TransactionTimeout(30*time.Second))
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.BeginTransaction(); err != nil {
		return wrap("begin transaction", err)
	}
	if err := k.ProduceSync(ctx, outgoing(tp, records)...).FirstErr(); err != nil {
		return wrap("produce to "+tp.String(), err)
	}
	return wrap("end transaction", k.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
}

func outgoing(tp task.TopicPartition, records []task.OutRecord) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		k := &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		out[i] = k
	}
	return out
}

// Committed are a group's offsets.
func (c *Client) Committed(ctx context.Context, group string) (map[task.TopicPartition]task.InputOffset, error) {
	res, err := c.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, wrap("committed offsets of "+group, err)
	}
	out := map[task.TopicPartition]task.InputOffset{}
	res.Each(func(o kadm.OffsetResponse) {
		tp := task.TopicPartition{Topic: o.Topic, Partition: o.Partition}
		if o.Err != nil {
			err = errors.Join(err, wrap("committed offset of "+tp.String(), o.Err))
		}
		out[tp] = task.InputOffset{TopicPartition: tp, Offset: o.At, Metadata: o.Metadata}
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		err = nil
	}
	return out, err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("broker: %s: %w", what, err)
}
