package streams

import (
	"crypto/tls"
	"time"

	"go.uber.org/zap"
)

// ConsumerConfig configures a [Consumer]. Brokers are required, and either topics by name or by pattern, with a Group, or partitions by hand;
// zero is right for most of the rest.
type ConsumerConfig struct {
	// Brokers are the addresses (host:port) asked first. Kafka key: bootstrap.servers.
	Brokers []string
	// Group is the consumer group. Required with Topics and Include; with Assign it is where offsets are committed, and may be empty if they
	// are not, or if Offsets keeps them. All members of a group are consumers of this package. Kafka key: group.id.
	Group string

	// Topics are read by their names. Not with Assign.
	Topics []string
	// Include are Go regular expressions, each for the whole name of a topic: what any of them matches is read, unless one of Exclude does.
	// Topics that appear, disappear or grow are noticed within MetadataInterval, and what appears is read from its beginning whatever NoOffset
	// says. Names that begin with two underscores, and those of changelogs, repartition, retry, redrive and dead-letter topics, never match.
	// They may stand beside Topics. Not with Assign.
	Include, Exclude []string
	// WaitForTopics lets Topics name some that do not exist yet: they are read when they appear. Without it they are an error of Poll.
	WaitForTopics bool
	// Assign are the partitions to read, and where to begin, without membership of a group: nothing is shared and nothing moves by itself.
	// [Consumer.Assign] and [Consumer.Unassign] change them. Not with Topics and Include. An empty map that is not nil is none to begin with.
	Assign map[TopicPartition]StartAt

	// NoOffset says where to begin where nothing has been committed. Defaults to the earliest record. A beginning at the latest one is
	// committed at once in a group, so that a restart before the first commit misses nothing. Kafka key: auto.offset.reset.
	NoOffset Reset
	// OutOfRange says where to go on where an offset is not in the log any more. Defaults to an error of Poll that names partition and
	// offsets: records may have been lost. Never silent: a reset is reported to Listener and Log.
	OutOfRange Reset
	// Offsets keeps the offsets instead of Kafka. Nil: Kafka does.
	Offsets OffsetStore
	// AlsoCommitToKafka commits to Kafka what Offsets has saved, for tools that show a group's lag. They are not read from there.
	AlsoCommitToKafka bool
	// CommitInterval is the time between two commits that Poll makes by itself, of what earlier Polls have returned. A Close commits the
	// same: what the last Poll returned may not be done yet, and is committed by [Consumer.Commit] only. Zero: there are none. Kafka keys:
	// enable.auto.commit, auto.commit.interval.ms.
	CommitInterval time.Duration
	// DeleteGroupOnClose deletes the group, with the offsets that it has committed, when its last member closes. For groups of random names.
	DeleteGroupOnClose bool

	// ReadCommitted leaves out records of transactions that are open or were aborted. Kafka key: isolation.level.
	ReadCommitted bool
	// MaxPollRecords is how many records one Poll returns at the most. Defaults to 500. Kafka key: max.poll.records.
	MaxPollRecords int
	// Memory bounds what is fetched and not yet returned, in bytes: each partition gets an equal share, 64 KiB at the least and 4 MiB at the
	// most. Defaults to 64 MiB. Kafka key: queued.max.messages.kbytes of librdkafka.
	Memory int64

	// Session is how long the group waits for a sign of life. The runtime gives it, whatever the program does between two Polls; a partition that
	// is to be handed over waits for the next Poll, and everything else goes on. Defaults to 15 s. Kafka key: session.timeout.ms.
	Session time.Duration
	// Rebalance bounds one rebalance. Defaults to Session + 5 s. Kafka key: rebalance.timeout.ms.
	Rebalance time.Duration
	// Heartbeat is the time between two signs of life, and how soon a rebalance is heard of. Defaults to a thirtieth of Session, at least
	// 200 ms and at most 500 ms. Kafka key: heartbeat.interval.ms.
	Heartbeat time.Duration
	// MetadataInterval is how soon topics and partitions that appear or disappear are noticed. Defaults to 30 s. Kafka key: metadata.max.age.ms.
	MetadataInterval time.Duration
	// Rack is where this process runs. Kafka key: client.rack.
	Rack string

	// TLS switches TLS on.
	TLS *tls.Config
	// SASL switches authentication on.
	SASL SASL
	// Client changes the connection settings for what has no field here (Kerberos, proxies). What the runtime relies on is set again after it.
	Client func(*ClientConfig)
	// ClientID is sent with every request. Defaults to Group, or to "understudy". Kafka key: client.id.
	ClientID string
	// RequestTimeout bounds the wait for an answer of a broker, or of Offsets. Defaults to 30 s. Kafka key: request.timeout.ms.
	RequestTimeout time.Duration

	// Log gets what an operator wants to know. Nil: no logging.
	Log *zap.Logger
	// Listener is told what happens, inside Poll, Commit and Close.
	Listener ConsumerListener
}
