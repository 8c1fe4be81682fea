package broker

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// emptyDir says whether a data directory holds nothing yet; so does one that does not exist, and none at all.
func emptyDir(dir string) (bool, error) {
	if dir == "" {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// answerUnknownGroups makes OffsetFetch of a group that the cluster has never seen answer "nothing committed", as Kafka does; kfake answers
// GROUP_ID_NOT_FOUND, which stops clients that expect Kafka. It works only from an empty cluster on, as a control cannot ask the cluster
// which groups it has.
func answerUnknownGroups(c *kfake.Cluster) {
	known := &groups{names: map[string]bool{}}
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch r := r.(type) {
		case *kmsg.JoinGroupRequest:
			known.add(r.Group)
		case *kmsg.OffsetCommitRequest:
			known.add(r.Group)
		case *kmsg.AddOffsetsToTxnRequest:
			known.add(r.Group)
		case *kmsg.TxnOffsetCommitRequest:
			known.add(r.Group)
		case *kmsg.ConsumerGroupHeartbeatRequest:
			known.add(r.Group)
		case *kmsg.ShareGroupHeartbeatRequest:
			known.add(r.GroupID)
		case *kmsg.OffsetFetchRequest:
			if known.knowsNone(r) {
				return nothingCommitted(r), nil, true
			}
		}
		return nil, nil, false
	})
}

// groups are the group names that the cluster has met.
type groups struct {
	mu    sync.Mutex
	names map[string]bool
}

func (g *groups) add(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.names[name] = true
}

func (g *groups) knowsNone(r *kmsg.OffsetFetchRequest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Version < 8 {
		return !g.names[r.Group]
	}
	for i := range r.Groups {
		if g.names[r.Groups[i].Group] {
			return false
		}
	}
	return true
}

// nothingCommitted answers offset -1 for all that was asked.
func nothingCommitted(r *kmsg.OffsetFetchRequest) kmsg.Response {
	res := r.ResponseKind().(*kmsg.OffsetFetchResponse) // the kind belongs to the request
	for _, t := range r.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = p, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	for _, g := range r.Groups {
		rg := kmsg.NewOffsetFetchResponseGroup()
		rg.Group = g.Group
		for _, t := range g.Topics {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch = p, -1, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			rg.Topics = append(rg.Topics, rt)
		}
		res.Groups = append(res.Groups, rg)
	}
	return res
}
