package streams

// InternalTopic is a topic that belongs to the application: it makes it, and nobody else writes to it.
type InternalTopic struct {
	Name string
	Kind InternalKind
	// Configs are the topic configurations that it is created with and that an existing one is held against.
	Configs map[string]string
	// Partitions is the number that the user asked for, 0 if it follows from other topics ([Topology.Partitions]). That of a changelog
	// always does: it is the number of tasks.
	Partitions int32
	// Subtopology is the number of the subtopology that reads it, as input or to restore, or whose dead letters it has.
	Subtopology int32
	// Source is the topic that the records of a dead-letter or redrive topic were read from first; empty for the others.
	Source string
}

// InternalKind says what an internal topic is for.
type InternalKind string

const (
	// RepartitionTopic carries records from one subtopology to another.
	RepartitionTopic InternalKind = "repartition"
	// ChangelogTopic has the rows of a store.
	ChangelogTopic InternalKind = "changelog"
	// RetryTopic has the records that are to be tried again: it is the changelog of a retry store.
	RetryTopic InternalKind = "retry"
	// DeadLetterTopic has the records of a source that have failed for good.
	DeadLetterTopic InternalKind = "dead-letter"
	// RedriveTopic is where dead letters are written to be run once more.
	RedriveTopic InternalKind = "redrive"
)

// Timestamps are those of the records, however old: a broker that refuses them, or deletes by them, would lose data.
func internalConfigs(more map[string]string) map[string]string {
	const widest = "9223372036854775807"
	configs := map[string]string{
		"message.timestamp.type":          "CreateTime",
		"message.timestamp.before.max.ms": widest,
		"message.timestamp.after.max.ms":  widest,
	}
	for k, v := range more {
		configs[k] = v
	}
	return configs
}

// newRepartition describes a repartition topic. It is never cleaned up by age, since records keep their timestamps and may be old; the
// application deletes what it has committed, in small segments so that the space comes back soon.
func newRepartition(name string, r *repartition) InternalTopic {
	return InternalTopic{
		Name: name, Kind: RepartitionTopic, Partitions: r.partitions,
		Configs: internalConfigs(map[string]string{
			"cleanup.policy": "delete",
			"retention.ms":   "-1",
			"segment.bytes":  "52428800",
		}),
	}
}

func newChangelog(name string, sub *subtopology) InternalTopic {
	return InternalTopic{
		Name: name, Kind: ChangelogTopic, Subtopology: sub.number,
		Configs: internalConfigs(map[string]string{"cleanup.policy": "compact"}),
	}
}

func newRetry(name string, sub *subtopology) InternalTopic {
	topic := newChangelog(name, sub)
	topic.Kind = RetryTopic
	return topic
}

// newDeadLetters describes a topic of dead letters, which are kept until somebody deletes them.
func newDeadLetters(name, source string, sub *subtopology) InternalTopic {
	return InternalTopic{
		Name: name, Kind: DeadLetterTopic, Subtopology: sub.number, Source: source,
		Configs: internalConfigs(map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}),
	}
}

// newRedrive describes a topic of redriven records, from which the application deletes what it has committed.
func newRedrive(name, source string, sub *subtopology) InternalTopic {
	topic := newRepartition(name, &repartition{})
	topic.Kind, topic.Subtopology, topic.Source = RedriveTopic, sub.number, source
	return topic
}
