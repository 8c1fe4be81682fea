package modelbroker

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

type topic struct {
	name    string
	id      [16]byte
	configs map[string]string
	parts   []*partition

	compact, deletes bool
	maxBytes         int
	aheadMax         time.Duration // message.timestamp.after.max.ms
	appendTime       bool          // message.timestamp.type=LogAppendTime
}

// defaults are the broker's values of the configs that the model acts on or that the runtime validates; the other known ones have none here.
var defaults = map[string]string{
	"cleanup.policy": "delete", "max.message.bytes": "1048588", "message.timestamp.type": "CreateTime",
	"message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": strconv.FormatInt(math.MaxInt64, 10),
	"retention.ms": "604800000", "retention.bytes": "-1", "segment.bytes": "1073741824", "segment.ms": "604800000",
	"delete.retention.ms": "86400000", "min.cleanable.dirty.ratio": "0.5", "min.compaction.lag.ms": "0",
	"max.compaction.lag.ms": strconv.FormatInt(math.MaxInt64, 10), "min.insync.replicas": "1", "compression.type": "producer",
}

var otherConfigs = []string{
	"compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "file.delete.delay.ms", "flush.messages", "flush.ms",
	"follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas", "local.retention.bytes",
	"local.retention.ms", "preallocate", "remote.storage.enable", "segment.index.bytes", "segment.jitter.ms", "unclean.leader.election.enable",
}

const (
	minSegmentBytes    = 1 << 20 // since Kafka 4.0
	defaultReplication = 3
	noCheck            = -1 // as leader epoch
)

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func (b *Broker) createTopics(r CreateTopicsRequest) Response {
	codes := make([]kcode.Code, len(r.Topics))
	for i, t := range r.Topics {
		if codes[i] = b.checkTopic(t); codes[i] == kcode.None {
			b.addTopic(t.Name, t.TopicConfig)
		}
	}
	return CreateTopicsResponse{Codes: codes}
}

func (b *Broker) checkTopic(t NewTopic) kcode.Code {
	switch {
	case !topicName.MatchString(t.Name) || t.Name == "." || t.Name == "..":
		return kcode.InvalidTopic
	case b.topics[t.Name] != nil:
		return kcode.TopicAlreadyExists
	case t.Partitions == 0 || t.Partitions < -1:
		return kcode.InvalidPartitions
	case t.Replication == 0 || t.Replication < -1 || int(t.Replication) > len(b.nodes):
		return kcode.InvalidReplicationFactor
	}
	for name, value := range t.Configs {
		if !validConfig(name, value) {
			return kcode.InvalidConfig
		}
	}
	return kcode.None
}

func validConfig(name, value string) bool {
	switch name {
	case "cleanup.policy":
		for p := range strings.SplitSeq(value, ",") {
			if p = strings.TrimSpace(p); p != "compact" && p != "delete" {
				return false
			}
		}
		return true
	case "message.timestamp.type":
		return value == "CreateTime" || value == "LogAppendTime"
	case "compression.type":
		return true
	case "min.cleanable.dirty.ratio":
		f, err := strconv.ParseFloat(value, 64)
		return err == nil && f >= 0 && f <= 1
	case "segment.bytes":
		n, err := strconv.ParseInt(value, 10, 32)
		return err == nil && n >= minSegmentBytes
	}
	if _, ok := defaults[name]; ok {
		_, err := strconv.ParseInt(value, 10, 64)
		return err == nil
	}
	return slices.Contains(otherConfigs, name)
}

// addTopic makes a topic without any check, spreading the leaders over the nodes.
func (b *Broker) addTopic(name string, c TopicConfig) {
	t := &topic{name: name, configs: maps.Clone(c.Configs), maxBytes: int(configNumber(c.Configs, "max.message.bytes"))}
	for i := range t.id {
		t.id[i] = byte(b.rng.Uint32())
	}
	policy := configValue(c.Configs, "cleanup.policy")
	t.compact, t.deletes = strings.Contains(policy, "compact"), strings.Contains(policy, "delete")
	t.appendTime = configValue(c.Configs, "message.timestamp.type") == "LogAppendTime"
	ahead := configNumber(c.Configs, "message.timestamp.after.max.ms")
	t.aheadMax = time.Duration(min(ahead, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	replicas := int(c.Replication)
	if replicas < 1 {
		replicas = min(defaultReplication, len(b.nodes))
	}
	for p := range max(c.Partitions, 1) {
		t.parts = append(t.parts, b.newPartition(t, p, replicas))
	}
	b.topics[name] = t
}

func (b *Broker) newPartition(t *topic, number int32, replicas int) *partition {
	p := &partition{topic: t, tp: task.TopicPartition{Topic: t.name, Partition: number}, open: -1, producers: map[int64]*producer{}}
	for i := range replicas {
		p.replicas = append(p.replicas, (number+int32(i))%int32(len(b.nodes)))
	}
	p.leader = b.electable(p, -1)
	return p
}

func configValue(configs map[string]string, name string) string {
	if v, ok := configs[name]; ok {
		return v
	}
	return defaults[name]
}

func configNumber(configs map[string]string, name string) int64 {
	n, err := strconv.ParseInt(configValue(configs, name), 10, 64)
	if err != nil {
		n, _ = strconv.ParseInt(defaults[name], 10, 64)
	}
	return n
}

func (b *Broker) deleteTopics(r DeleteTopicsRequest) Response {
	codes := make([]kcode.Code, len(r.Topics))
	for i, name := range r.Topics {
		t := b.topics[name]
		if t == nil {
			codes[i] = kcode.UnknownTopicOrPartition
			continue
		}
		delete(b.topics, name)
		for _, g := range b.groups {
			maps.DeleteFunc(g.offsets, func(tp task.TopicPartition, _ committed) bool { return tp.Topic == name })
		}
		for _, p := range t.parts {
			p.gone = true
		}
		for _, p := range t.parts {
			b.wakeFetches(p)
		}
	}
	return DeleteTopicsResponse{Codes: codes}
}

func (b *Broker) topicConfigs(r TopicConfigsRequest) Response {
	resp := TopicConfigsResponse{Configs: make([]map[string]string, len(r.Topics)), Codes: make([]kcode.Code, len(r.Topics))}
	for i, name := range r.Topics {
		t := b.topics[name]
		if t == nil {
			resp.Codes[i] = kcode.UnknownTopicOrPartition
			continue
		}
		resp.Configs[i] = maps.Clone(defaults)
		maps.Copy(resp.Configs[i], t.configs)
	}
	return resp
}

func (b *Broker) metadata(r MetadataRequest) Response {
	names := r.Topics
	if names == nil {
		names = slices.Sorted(maps.Keys(b.topics))
	}
	resp := MetadataResponse{Controller: b.nextUp(0)}
	for i, n := range b.nodes {
		if n.up {
			resp.Brokers = append(resp.Brokers, int32(i))
		}
	}
	for _, name := range names {
		resp.Topics = append(resp.Topics, b.describe(name))
	}
	return resp
}

func (b *Broker) describe(name string) TopicMetadata {
	t := b.topics[name]
	if t == nil {
		return TopicMetadata{Name: name, Code: kcode.UnknownTopicOrPartition}
	}
	m := TopicMetadata{Name: name, ID: t.id}
	for _, p := range t.parts {
		pm := PartitionMetadata{Leader: p.leader, LeaderEpoch: p.epoch}
		if p.leader < 0 {
			pm.Code = kcode.LeaderNotAvailable
		}
		m.Partitions = append(m.Partitions, pm)
	}
	return m
}
