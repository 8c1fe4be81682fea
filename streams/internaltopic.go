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
	// Subtopology is the number of the subtopology that reads it: as input, or to restore.
	Subtopology int32
}

// InternalKind says what an internal topic is for.
type InternalKind string

const (
	// RepartitionTopic carries records from one subtopology to another.
	RepartitionTopic InternalKind = "repartition"
	// ChangelogTopic has the rows of a store.
	ChangelogTopic InternalKind = "changelog"
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
