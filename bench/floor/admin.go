package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admin is what happens once, or once a commit: there a client library costs nothing that matters.
type admin struct {
	app    string
	client *kgo.Client
	kadm   *kadm.Client
}

func newAdmin(seeds []string, app string) (*admin, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	return &admin{app, client, kadm.NewClient(client)}, nil
}

func (a *admin) close() { a.client.Close() }

// epochs returns the leader epochs of the topic's partitions; it waits until all have a leader.
func (a *admin) epochs(ctx context.Context, topic string) ([]int32, error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		m, err := a.kadm.Metadata(ctx, topic)
		if err != nil {
			return nil, err
		}
		detail := m.Topics[topic]
		epochs, ready := make([]int32, len(detail.Partitions)), detail.Err == nil && len(detail.Partitions) > 0
		for p, d := range detail.Partitions {
			ready = ready && d.Err == nil && d.Leader >= 0
			if int(p) < len(epochs) {
				epochs[p] = d.LeaderEpoch
			}
		}
		if ready {
			return epochs, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("topic %s has no leaders: %v", topic, detail.Err)
		}
	}
}

func (a *admin) producerID(ctx context.Context) (id int64, epoch int16, err error) {
	answer, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, a.client)
	if err != nil {
		return 0, 0, err
	}
	return answer.ProducerID, answer.ProducerEpoch, kerr.ErrorForCode(answer.ErrorCode)
}

// makeChangelog makes the topic of the counts.
func (a *admin) makeChangelog(ctx context.Context, partitions int) (string, error) {
	name := a.app + "-c-changelog"
	if _, err := a.kadm.CreateTopic(ctx, int32(partitions), 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, name); err != nil {
		return "", err
	}
	_, err := a.epochs(ctx, name)
	return name, err
}

// commit is that of a group without members.
func (a *admin) commit(topic string, next []int64) error {
	var offsets kadm.Offsets
	for p, at := range next {
		offsets.AddOffset(topic, int32(p), at, -1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return a.kadm.CommitAllOffsets(ctx, a.app, offsets)
}
