package streams

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/pattern"
	"github.com/understudy-streams/understudy/task"
)

// ConsumerConfig configures a [Consumer]. Brokers are required, and either topics by name or by pattern, with a Group, or partitions by hand;
// zero is right for most of the rest.
type ConsumerConfig struct {
	// Brokers are the addresses (host:port) asked first. Kafka key: bootstrap.servers.
	Brokers []string
	// Group is the consumer group. Required with Topics and Include; with Assign it is where offsets are committed, and may be empty if they
	// are not, or if Offsets keeps them. All members of a group are consumers of this package; they may read different topics: each is shared
	// by those who read it. Kafka key: group.id.
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
	// committed at once in a group, so that a restart before the first commit misses nothing; with Offsets it is not, as their first save may
	// be the program's own. Kafka key: auto.offset.reset.
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
	// Recovery is what a crash does to the records of a partition that came while nobody read it. With RecoverParallel those that are new when the
	// partition is assigned come at once, and beside them, in a path of their own, those that were left behind, with ConsumerRecord.Replayed
	// set: at most a quarter of a Poll while there are new ones. Each path is in order. A partition is split so once, after an end that was no
	// Close, and no hand-over to another member, if more than RecoverAbove records lie between the committed offset and the end of the log (up to the
	// first open transaction, with ReadCommitted); what is left of a gap goes on after a Close, a hand-over or another crash, whose own is added
	// to it. Unassign is such an end as well.
	//
	// Commits say where both paths are: the committed offset is the first that is not done of what was left behind, and what is done behind it is
	// in the commit's metadata. So that a crash can be told from a Close, the consumer commits by itself as well: that it is running where it begins
	// at a committed offset, that it is not any more where it ends, and the gap before the first new record is returned. None of these says
	// that any record is done which no commit of the program's, or of CommitInterval, has said is done. Nobody else may commit for
	// the group, and it takes a Group and offsets in Kafka: an OffsetStore has no room for what is to be said. Without it a gap that others have left is
	// read from its beginning, with what was done behind it. Defaults to RecoverSerial: everything in order.
	Recovery RecoveryMode
	// RecoverAbove is above how many records RecoverParallel splits a partition. Defaults to 10,000.
	RecoverAbove int64
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
	// Listener is told what happens, inside Poll and Close.
	Listener ConsumerListener
}

const leastConsumerMemory = 1 << 20

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	c.MaxPollRecords = cmp.Or(c.MaxPollRecords, 500)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.Session = cmp.Or(c.Session, 15*time.Second)
	c.Rebalance = cmp.Or(c.Rebalance, c.Session+5*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, min(max(c.Session/30, 200*time.Millisecond), 500*time.Millisecond))
	c.RecoverAbove = cmp.Or(c.RecoverAbove, 10_000)
	c.MetadataInterval = cmp.Or(c.MetadataInterval, 30*time.Second)
	c.ClientID = cmp.Or(c.ClientID, c.Group)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// validate checks a ConsumerConfig as the user gave it.
func (c ConsumerConfig) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	c.validateWhat(fault)
	c.validateOffsets(fault)
	c.validateNumbers(fault)
	if len(c.Include) > 0 {
		if _, err := pattern.Compile(c.Include, c.Exclude); err != nil {
			faults = append(faults, unjoin(err)...)
		}
	} else if len(c.Exclude) > 0 {
		fault("Exclude has patterns and Include has none: Exclude takes topics out of what Include matches")
	}
	if err := c.client().Validate(); err != nil {
		faults = append(faults, unjoin(err)...)
	}
	if len(faults) > 0 {
		return &ConfigError{Faults: faults}
	}
	return nil
}

// validateWhat checks what is read.
func (c ConsumerConfig) validateWhat(fault func(string, ...any)) {
	subscribes := len(c.Topics)+len(c.Include) > 0
	switch {
	case subscribes && c.Assign != nil:
		fault("Assign stands beside Topics or Include: partitions are given by hand, or by the group to those who subscribe; leave one of them out, or make " +
			"two consumers")
	case !subscribes && c.Assign == nil:
		fault("there is nothing to read: set Topics or Include to share topics with a group, or Assign for partitions by hand")
	case subscribes && c.Group == "":
		fault("Group is empty: name the group that shares the topics, or use Assign to read without one")
	}
	if slices.Contains(c.Topics, "") {
		fault("Topics has an empty name")
	}
	for _, tp := range slices.SortedFunc(maps.Keys(c.Assign), task.TopicPartition.Compare) {
		s := c.Assign[tp]
		for _, err := range []error{checkPartition(tp), checkStart(tp, s), (&Consumer{cfg: c}).canLoad(tp, s)} {
			if err != nil {
				fault("Assign: %w", err)
			}
		}
	}
}

// validateOffsets checks where offsets are kept.
func (c ConsumerConfig) validateOffsets(fault func(string, ...any)) {
	for name, r := range map[string]Reset{"NoOffset": c.NoOffset, "OutOfRange": c.OutOfRange} {
		if !r.valid() {
			fault("%s is %d: use ResetStop, ResetEarliest or ResetLatest", name, r)
		}
	}
	if c.AlsoCommitToKafka && (c.Offsets == nil || c.Group == "") {
		fault("AlsoCommitToKafka is set without Offsets and Group: offsets are committed to Kafka anyway, or there is no group to commit them for")
	}
	if c.CommitInterval > 0 && c.Group == "" && c.Offsets == nil {
		fault("CommitInterval is set, and there is neither Group nor Offsets to keep what is committed: set one of them")
	}
	switch {
	case !c.Recovery.valid():
		fault("Recovery is %d: use RecoverSerial or RecoverParallel", c.Recovery)
	case c.Recovery == RecoverParallel && c.Offsets != nil:
		fault("Recovery is RecoverParallel and Offsets keeps the offsets: where two paths of a partition are takes more than an offset. Leave Offsets out, or " +
			"Recovery")
	case c.Recovery == RecoverParallel && c.Group == "":
		fault("Recovery is RecoverParallel and there is no Group: what a crash has left behind is told by the group's commits. Name one")
	}
	if c.DeleteGroupOnClose && c.Group == "" {
		fault("DeleteGroupOnClose is set without a Group")
	}
}

func (c ConsumerConfig) validateNumbers(fault func(string, ...any)) {
	for _, t := range []struct {
		name string
		d    time.Duration
	}{
		{"CommitInterval", c.CommitInterval}, {"Session", c.Session}, {"Rebalance", c.Rebalance}, {"Heartbeat", c.Heartbeat},
		{"MetadataInterval", c.MetadataInterval},
	} {
		if t.d < 0 {
			fault("%s is %v: it must be positive, or 0 for the default", t.name, t.d)
		}
	}
	if d := c.withDefaults(); d.Heartbeat*3 > d.Session && c.Heartbeat >= 0 && c.Session >= 0 {
		fault("Heartbeat is %v and Session %v: a session must be at least three heartbeats long", d.Heartbeat, d.Session)
	}
	if c.RecoverAbove < 0 {
		fault("RecoverAbove is %d: it must be positive, or 0 for the default of 10,000", c.RecoverAbove)
	}
	if c.MaxPollRecords < 0 {
		fault("MaxPollRecords is %d: it must be positive, or 0 for the default of 500", c.MaxPollRecords)
	}
	if c.Memory != 0 && c.Memory < leastConsumerMemory {
		fault("Memory is %d bytes: at least 1 MiB is needed, or 0 for the default of 64 MiB", c.Memory)
	}
}

// recoverAbove is 0 where everything comes in order.
func (c ConsumerConfig) recoverAbove() int64 {
	if c.Recovery != RecoverParallel {
		return 0
	}
	return c.RecoverAbove
}

// client is the part of the configuration that concerns connections.
func (c ConsumerConfig) client() kafka.Config {
	return kafka.Config{
		Brokers: c.Brokers, ClientID: c.ClientID, TLS: c.TLS, SASL: c.SASL, Sarama: c.Client, RequestTimeout: c.RequestTimeout, Log: c.Log,
	}
}

// String leaves secrets out.
func (c ConsumerConfig) String() string {
	return fmt.Sprintf("consumer of group %q: %v", c.Group, c.client())
}

// GoString leaves secrets out.
func (c ConsumerConfig) GoString() string { return "streams.ConsumerConfig{" + c.String() + "}" }
