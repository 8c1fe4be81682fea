package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// ListedGroup is a group of the cluster.
type ListedGroup struct {
	Group        string
	ProtocolType string // "consumer", "connect", …; empty: nobody has ever joined, offsets were committed from outside
	State        string // Kafka's word; empty from brokers before 2.6
}

// ListGroups asks every broker for the groups that it coordinates; the answer is sorted by name. If one cannot be asked, the error says which,
// and the answer has those of the others.
func (c *Client) ListGroups(ctx context.Context) ([]ListedGroup, error) {
	m, err := c.Metadata(ctx, []string{})
	if err != nil {
		return nil, err
	}
	brokers := make([]leaderParts, len(m.Brokers))
	for i, b := range m.Brokers {
		brokers[i].addr = b.Addr
	}
	type told struct {
		groups []ListedGroup
		err    error
	}
	var out []ListedGroup
	var errs []error
	for _, a := range onEach(brokers, func(b leaderParts) []told {
		groups, err := c.groupsOf(ctx, b.addr)
		return []told{{groups, err}}
	}) {
		out = append(out, a.results[0].groups...)
		errs = append(errs, a.results[0].err)
	}
	slices.SortFunc(out, func(a, b ListedGroup) int { return cmp.Compare(a.Group, b.Group) })
	// A coordinator that moves may be told of by two brokers.
	return slices.CompactFunc(out, func(a, b ListedGroup) bool { return a.Group == b.Group }), errors.Join(errs...)
}

func (c *Client) groupsOf(ctx context.Context, addr string) ([]ListedGroup, error) {
	var res *sarama.ListGroupsResponse
	err := c.call(ctx, addr, "ListGroups", func(k *conn) (err error) {
		res, err = k.broker.ListGroups(&sarama.ListGroupsRequest{Version: 4})
		return err
	})
	if err != nil {
		return nil, err
	}
	if res.Err != sarama.ErrNoError {
		return nil, &ResponseError{Broker: addr, Request: "ListGroups", Code: kcode.Code(res.Err)}
	}
	out := make([]ListedGroup, 0, len(res.Groups))
	for name, protocolType := range res.Groups {
		out = append(out, ListedGroup{Group: name, ProtocolType: protocolType, State: res.GroupsData[name].GroupState})
	}
	return out, nil
}

// DeleteGroup deletes a group with its committed offsets. It asks the coordinator; the codes in the error's chain are the coordinator's:
// NonEmptyGroup while somebody is in the group, GroupIDNotFound if there is none, CoordinatorLoadInProgress and the like for "not now".
func (c *Client) DeleteGroup(ctx context.Context, group string) error {
	var res *sarama.DeleteGroupsResponse
	err := c.coordinator(ctx, group, "DeleteGroups", func(k *conn) (err error) {
		res, err = k.broker.DeleteGroups(&sarama.DeleteGroupsRequest{Version: 2, Groups: []string{group}})
		return err
	})
	if err != nil {
		return err
	}
	code, ok := res.GroupErrorCodes[group]
	if !ok {
		return fmt.Errorf("kafka: DeleteGroups: the answer says nothing of group %q", group)
	}
	if code != sarama.ErrNoError {
		return fmt.Errorf("kafka: DeleteGroups of %q: %w", group, kcode.Code(code))
	}
	return nil
}

// DeleteOffsets deletes the committed offsets of partitions. The answer has an entry per partition, nil where there is none any more; the
// error is for the whole group, with a kcode.Code in its chain if the broker sent one. A partition that somebody in the group is subscribed to
// keeps its offset: GroupSubscribedToTopic.
func (c *Client) DeleteOffsets(ctx context.Context, group string, tps []task.TopicPartition) (map[task.TopicPartition]error, error) {
	out := make(map[task.TopicPartition]error, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	req := &sarama.DeleteOffsetsRequest{Group: group}
	for _, tp := range tps {
		req.AddPartition(tp.Topic, tp.Partition)
	}
	var res *sarama.DeleteOffsetsResponse
	err := c.coordinator(ctx, group, "OffsetDelete", func(k *conn) (err error) {
		res, err = k.broker.DeleteOffsets(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if res.ErrorCode != sarama.ErrNoError {
		return nil, fmt.Errorf("kafka: OffsetDelete of group %q: %w", group, kcode.Code(res.ErrorCode))
	}
	for _, tp := range tps {
		code, ok := res.Errors[tp.Topic][tp.Partition]
		if !ok {
			out[tp] = fmt.Errorf("kafka: OffsetDelete: the answer says nothing of %s", tp)
		} else {
			out[tp] = kcode.Code(code).Err()
		}
	}
	return out, nil
}

// coordinator runs f on the coordinator of a group.
func (c *Client) coordinator(ctx context.Context, group, request string, f func(*conn) error) error {
	addr, code, err := c.Coordinator(ctx, group)
	if err != nil {
		return err
	}
	if code != kcode.None {
		return fmt.Errorf("kafka: find the coordinator of group %q: %w", group, code)
	}
	return c.call(ctx, addr, request, f)
}
