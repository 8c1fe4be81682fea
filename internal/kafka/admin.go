package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// NewTopic is a topic to create.
type NewTopic struct {
	Name        string
	Partitions  int32 // -1: the broker's default
	Replication int16 // -1: the broker's default
	Configs     map[string]string
}

// CreateTopics creates topics and answers with one entry per topic: nil where it was created, an error with a kcode.Code in its chain where
// not (TopicAlreadyExists is such an error). It asks the controller.
func (c *Client) CreateTopics(ctx context.Context, topics []NewTopic) (map[string]error, error) {
	if len(topics) == 0 {
		return map[string]error{}, nil
	}
	details := make(map[string]*sarama.TopicDetail, len(topics))
	for _, t := range topics {
		d := &sarama.TopicDetail{NumPartitions: t.Partitions, ReplicationFactor: t.Replication, ConfigEntries: map[string]*string{}}
		for k, v := range t.Configs {
			d.ConfigEntries[k] = &v
		}
		details[t.Name] = d
	}
	req := sarama.NewCreateTopicsRequest(c.settings.conf.Version, details, c.timeout, false)
	var res *sarama.CreateTopicsResponse
	err := c.controller(ctx, "CreateTopics", func(k *conn) (err error) {
		res, err = k.broker.CreateTopics(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]error, len(topics))
	for _, t := range topics {
		out[t.Name] = topicError("CreateTopics", t.Name, res.TopicErrors[t.Name])
	}
	return out, nil
}

func topicError(request, topic string, e *sarama.TopicError) error {
	switch {
	case e == nil:
		return fmt.Errorf("kafka: %s: the answer says nothing of topic %q", request, topic)
	case e.Err == sarama.ErrNoError:
		return nil
	case e.ErrMsg != nil && *e.ErrMsg != "":
		return fmt.Errorf("kafka: %s of topic %q: %w: %s", request, topic, kcode.Code(e.Err), *e.ErrMsg)
	}
	return fmt.Errorf("kafka: %s of topic %q: %w", request, topic, kcode.Code(e.Err))
}

// DeleteTopics deletes topics and answers with one entry per topic: nil where it is deleted, an error with a kcode.Code in its chain where not
// (UnknownTopicOrPartition: there was none). Brokers delete what is in it later; some still name the topic for a moment. It asks the controller.
func (c *Client) DeleteTopics(ctx context.Context, topics []string) (map[string]error, error) {
	if len(topics) == 0 {
		return map[string]error{}, nil
	}
	req := sarama.NewDeleteTopicsRequest(c.settings.conf.Version, topics, c.timeout)
	var res *sarama.DeleteTopicsResponse
	err := c.controller(ctx, "DeleteTopics", func(k *conn) (err error) {
		res, err = k.broker.DeleteTopics(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]error, len(topics))
	for _, t := range topics {
		var told *sarama.TopicError
		if code, ok := res.TopicErrorCodes[t]; ok {
			told = &sarama.TopicError{Err: code, ErrMsg: res.TopicErrorMessages[t]}
		}
		out[t] = topicError("DeleteTopics", t, told)
	}
	return out, nil
}

// controller runs f on the controller, as the last metadata names it. Brokers of a KRaft cluster name any of them and pass the request on.
func (c *Client) controller(ctx context.Context, request string, f func(*conn) error) error {
	m, err := c.Metadata(ctx, []string{})
	if err != nil {
		return err
	}
	addr, err := c.addrOf(ctx, m.Controller)
	if err != nil {
		return fmt.Errorf("kafka: %s: no controller: %w", request, err)
	}
	return c.call(ctx, addr, request, f)
}

// TopicConfigs reads the settings of topics, defaults included. A topic that cannot be read is in the error and not in the answer.
func (c *Client) TopicConfigs(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	out := make(map[string]map[string]string, len(topics))
	if len(topics) == 0 {
		return out, nil
	}
	req := &sarama.DescribeConfigsRequest{Version: 2}
	for _, t := range topics {
		req.Resources = append(req.Resources, &sarama.ConfigResource{Type: sarama.TopicResource, Name: t})
	}
	var res *sarama.DescribeConfigsResponse
	err := c.anyBroker(ctx, "DescribeConfigs", func(k *conn) (err error) {
		res, err = k.broker.DescribeConfigs(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range res.Resources {
		if r.ErrorCode != 0 {
			errs = append(errs, fmt.Errorf("kafka: DescribeConfigs of topic %q: %w", r.Name, kcode.Code(r.ErrorCode)))
			continue
		}
		configs := make(map[string]string, len(r.Configs))
		for _, e := range r.Configs {
			configs[e.Name] = e.Value
		}
		out[r.Name] = configs
	}
	return out, errors.Join(errs...)
}

// DeleteRecords deletes everything below the offsets. A partition that begins at or above its offset already is done, not an error. The
// answer has an entry per partition, nil where it is done; the error is for when no leader could be asked at all.
func (c *Client) DeleteRecords(ctx context.Context, before map[task.TopicPartition]int64) (map[task.TopicPartition]error, error) {
	out := make(map[task.TopicPartition]error, len(before))
	leaders, err := c.byLeader(ctx, slices.Collect(maps.Keys(before)), func(tp task.TopicPartition, err error) { out[tp] = err })
	if err != nil {
		return nil, err
	}
	for _, answers := range onEach(leaders, func(l leaderParts) []error { return c.deleteOn(ctx, l, before) }) {
		for i, e := range answers.results {
			out[answers.parts[i]] = e
		}
	}
	return out, c.belowStart(ctx, before, out)
}

// deleteOn asks one leader. The answers are in the order of its partitions.
func (c *Client) deleteOn(ctx context.Context, l leaderParts, before map[task.TopicPartition]int64) []error {
	req := &sarama.DeleteRecordsRequest{Version: 1, Topics: map[string]*sarama.DeleteRecordsRequestTopic{}, Timeout: c.timeout}
	for _, tp := range l.parts {
		t := req.Topics[tp.Topic]
		if t == nil {
			t = &sarama.DeleteRecordsRequestTopic{PartitionOffsets: map[int32]int64{}}
			req.Topics[tp.Topic] = t
		}
		t.PartitionOffsets[tp.Partition] = before[tp]
	}
	var res *sarama.DeleteRecordsResponse
	err := c.call(ctx, l.addr, "DeleteRecords", func(k *conn) (err error) {
		res, err = k.broker.DeleteRecords(req)
		return err
	})
	out := make([]error, len(l.parts))
	for i, tp := range l.parts {
		if err != nil {
			out[i] = err
			continue
		}
		if t := res.Topics[tp.Topic]; t != nil && t.Partitions[tp.Partition] != nil {
			out[i] = kcode.Code(t.Partitions[tp.Partition].Err).Err()
		} else {
			out[i] = fmt.Errorf("kafka: DeleteRecords: the answer of %s says nothing of %s", l.addr, tp)
		}
	}
	return out
}

// belowStart turns OffsetOutOfRange into success where the partition begins at or above the offset: some brokers refuse what others treat as
// nothing to do.
func (c *Client) belowStart(ctx context.Context, before map[task.TopicPartition]int64, out map[task.TopicPartition]error) error {
	var ask []task.TopicPartition
	for tp, err := range out {
		if errors.Is(err, kcode.OffsetOutOfRange) {
			ask = append(ask, tp)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	starts, err := c.ListOffsets(ctx, Earliest, ask)
	if err != nil {
		return err
	}
	for _, tp := range ask {
		if s := starts[tp]; s.Err == nil && s.Offset >= before[tp] {
			out[tp] = nil
		}
	}
	return nil
}
