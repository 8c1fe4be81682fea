package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// GroupDescription is what the coordinator says of a group. Protocol, and the bytes of the members, are empty unless State is Stable.
type GroupDescription struct {
	Group        string
	State        string // Kafka's word; Dead: there is no such group
	ProtocolType string
	Protocol     string
	Members      []DescribedMember // sorted by id
}

// DescribedMember is one member: the bytes that it joined with, and those that it was assigned.
type DescribedMember struct {
	ID, ClientID, Host   string
	Metadata, Assignment []byte
}

// DescribeGroup asks the coordinator about a group. A code that stands for "not now" (the coordinator moves or loads) is in the error's chain.
func (c *Client) DescribeGroup(ctx context.Context, group string) (GroupDescription, error) {
	req := &sarama.DescribeGroupsRequest{Version: 5, Groups: []string{group}}
	var res *sarama.DescribeGroupsResponse
	err := c.coordinator(ctx, group, "DescribeGroups", func(k *conn) (err error) {
		res, err = k.broker.DescribeGroups(req)
		return err
	})
	if err != nil {
		return GroupDescription{}, err
	}
	if len(res.Groups) != 1 {
		return GroupDescription{}, errors.New("kafka: DescribeGroups: the answer is not about the group that was asked for")
	}
	g := res.Groups[0]
	if g.Err != sarama.ErrNoError {
		return GroupDescription{}, fmt.Errorf("kafka: DescribeGroups of %q: %w", group, kcode.Code(g.Err))
	}
	out := GroupDescription{Group: g.GroupId, State: g.State, ProtocolType: g.ProtocolType, Protocol: g.Protocol}
	for _, m := range g.Members {
		out.Members = append(out.Members, DescribedMember{
			ID: m.MemberId, ClientID: m.ClientId, Host: m.ClientHost, Metadata: m.MemberMetadata, Assignment: m.MemberAssignment,
		})
	}
	slices.SortFunc(out.Members, func(a, b DescribedMember) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
