package streams

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/retry"
)

// SASL says how to authenticate at the brokers; it is off while its Mechanism is empty. Printing it leaves the password out.
type SASL = kafka.SASL

// The SASL mechanisms.
const (
	SASLPlain       = kafka.Plain
	SASLScramSHA256 = kafka.ScramSHA256
	SASLScramSHA512 = kafka.ScramSHA512
	SASLOAuthBearer = kafka.OAuthBearer
)

// ClientConfig is the connection configuration that [Config].Client may change; it is sarama's Config under the name that this package
// knows it by.
type ClientConfig = kafka.SaramaConfig

// Compression is how record batches are compressed on their way to the brokers.
type Compression = kafka.Codec

// The compressions.
const (
	CompressNone   = kafka.None
	CompressGzip   = kafka.Gzip
	CompressSnappy = kafka.Snappy
	CompressLZ4    = kafka.LZ4
	CompressZstd   = kafka.Zstd
)

// Reset says where to begin to read a partition.
type Reset uint8

const (
	// ResetDefault is earliest where nothing has been committed yet, and stop where a committed offset is out of range.
	ResetDefault Reset = iota
	// ResetStop ends the application with an error that names partition and offsets.
	ResetStop
	// ResetEarliest begins at the oldest record there is.
	ResetEarliest
	// ResetLatest begins after the newest record there is.
	ResetLatest
)

func (r Reset) valid() bool { return r <= ResetLatest }

// engine maps a Reset to the engine's, with what the default is at this place.
func (r Reset) engine(fallback engine.Reset) engine.Reset {
	switch r {
	case ResetStop:
		return engine.ResetStop
	case ResetEarliest:
		return engine.ResetEarliest
	case ResetLatest:
		return engine.ResetLatest
	default:
		return fallback
	}
}

// Config configures an application. ApplicationID and Brokers are required; zero is right for most of the rest.
type Config struct {
	// ApplicationID names the application: it is the consumer group and the prefix of its internal topics. All processes that share the
	// work have the same. Kafka Streams key: application.id.
	ApplicationID string
	// Brokers are the addresses (host:port) asked first. Kafka key: bootstrap.servers.
	Brokers []string
	// StateDir is where state is kept, below a folder named after the application. A topology without stores needs none and makes none.
	// Required otherwise; a folder below the system's temporary directory is warned about, since cleaners empty it. Kafka Streams key:
	// state.dir.
	StateDir string

	// CommitInterval is the time between two commits. Defaults to 1 s. Kafka Streams key: commit.interval.ms.
	CommitInterval time.Duration
	// CommitBytes is the uncommitted state of one task, in bytes, at which it commits earlier. Defaults to its share of Memory, 16 MiB at
	// the most. A larger one is not within Memory.
	CommitBytes int
	// Linger is how long a small batch waits for company. Defaults to 5 ms. Kafka key: linger.ms.
	Linger time.Duration
	// Compression of what is produced. Defaults to none. Kafka key: compression.type.
	Compression Compression
	// MaxRecordBytes is the largest record, key and value and headers, that the application may write. A larger one fails its unit.
	// Defaults to 1 MiB less 512 bytes, which fits the brokers' default of message.max.bytes. Kafka key: max.request.size.
	MaxRecordBytes int

	// OnFailure is what becomes of records that fail, for sources that name no policy of their own with [OnFailure]. Defaults to
	// retry.Ordered(): a record that fails is tried again in its place, and its partition's task waits.
	OnFailure retry.Policy

	// Recovery is what a task does after a crash with the records that came while nobody ran it, for sources that say nothing of their own.
	// RecoverParallel, for fresh results at once, needs [retry.Parallel] and steps that do not depend on the order of records: see there.
	// Defaults to RecoverSerial.
	Recovery RecoveryMode
	// RecoverAbove is above how many records of a partition, from the committed offset to the end of the log, RecoverParallel replays them
	// beside what is new. Fewer are processed first, in order. Defaults to 10,000.
	RecoverAbove int64

	// NoOffset says where to begin where the group has committed nothing. Defaults to the earliest record. Kafka key: auto.offset.reset.
	NoOffset Reset
	// OutOfRange says where to go on where the committed offset is not in the log any more. Defaults to stop with an error: records may
	// have been lost. Never silent: a reset is reported to Listener and Log.
	OutOfRange Reset

	// Memory bounds what the process holds, in bytes, beside 64 MiB for the rest: half of it for Pebble's block cache and memtables, which
	// Go's heap does not count where the program is built with cgo, 3/16 for uncommitted and cached rows, 3/16 for restores, and 1/16 each
	// for input and output under way and for buffers of connections. Each task and input partition of the application gets an equal share,
	// 112 KiB a task at the least, even if Memory is less. A single batch of an input topic that is larger than the share of its partition
	// is held as a whole. Collector and allocators add to it, up to as much again; with environment variables the process keeps to it, but
	// for fragments (a seventh at the most in bench/run growth): GOMEMLIMIT at half of Memory and 64 MiB, and MALLOC_ARENA_MAX=1, by which
	// glibc gives Pebble's half back; where the program is built without cgo, GOMEMLIMIT alone at Memory and 64 MiB. Defaults to 512 MiB.
	Memory int64

	// Session is how long the group waits for a sign of life. Defaults to 15 s. Kafka key: session.timeout.ms.
	Session time.Duration
	// Rebalance bounds one rebalance. Defaults to Session + 5 s. Kafka key: rebalance.timeout.ms.
	Rebalance time.Duration
	// Heartbeat is the time between two signs of life, and how soon a process hears of a rebalance. Defaults to a thirtieth of Session, at
	// least 200 ms and at most 500 ms. Kafka key: heartbeat.interval.ms.
	Heartbeat time.Duration
	// Capacity is the share of the work that this process takes, relative to the others'. Defaults to 1.
	Capacity int
	// TopologyVersion tells versions of the program apart in a rolling upgrade: what has changed runs only where the version is highest. Raise it
	// with every change of the topology: a process whose topology differs from the others' under the same version ends with an error. Defaults to
	// 0.
	TopologyVersion int32
	// Rack is where this process runs. Kafka key: client.rack.
	Rack string
	// Tags say more about where this process runs, such as its zone and its cluster, for SpreadTags: five at the most, keys of up to 20 bytes
	// and values of up to 30. Kafka Streams keys: client.tag.*.
	Tags map[string]string
	// SpreadTags are the keys of those Tags over whose values the copies of a task are spread, the most important one first, where there are
	// enough processes to do so. Rack comes before them. Kafka Streams key: rack.aware.assignment.tags.
	SpreadTags []string

	// Standbys is how many other processes keep a copy of each state up to date, so that a task whose process has died goes on at once. It
	// costs as much disk, and as many reads of the changelogs. Defaults to none. Kafka Streams key: num.standby.replicas.
	Standbys int
	// LearnersPerProcess is how many tasks one process learns at a time: it copies their states, and takes them over when it has caught up;
	// they run on at their owners meanwhile. Defaults to 4.
	LearnersPerProcess int
	// Learners is how many tasks are learned at a time in all processes together. Defaults to 4 times the number of processes. Kafka Streams
	// key: max.warmup.replicas.
	Learners int
	// LearnRate bounds the bytes a second that this process copies as a standby or learner while tasks run in it. A copy that is all but up to
	// date is not held up. Defaults to 64 MiB; negative: no bound.
	LearnRate int
	// AcceptableLag is how many changelog records a copy may be behind and yet take its task over: what is missing is restored while the task
	// stands still. Defaults to 10,000. Kafka Streams key: acceptable.recovery.lag.
	AcceptableLag int64
	// Coalesce is how long a task that has been learned waits for others that this process learns, so that one rebalance moves them all. All
	// are moved at once when all are learned. Worth a minute where learning takes many. Defaults to 5 s.
	Coalesce time.Duration
	// StateCleanup is how long a state is kept on disk that no task of this process uses. Until then, a task that comes back needs only what
	// has changed since. Defaults to 1 h. Kafka Streams key: state.cleanup.delay.ms.
	StateCleanup time.Duration
	// DrainTimeout is how long Drain waits for others to take the tasks over. Defaults to 10 minutes.
	DrainTimeout time.Duration

	// MetadataInterval is how often the topics are looked at: new leaders aside, which are noticed at once, whether one was made that a pattern
	// matches, was deleted, or has more partitions. Defaults to 30 s. Kafka key: metadata.max.age.ms.
	MetadataInterval time.Duration
	// WaitForTopics lets the start wait for topics that are read and do not exist yet. Otherwise it ends with a [*MissingTopicError] after 3 s.
	// Topics that are written must exist all the same.
	WaitForTopics bool
	// StuckAfter is how long an input partition may have records to be read while nothing of it is committed, before it is reported to
	// [Listener].Stuck, to Log and by [App.Lag]. Defaults to 5 minutes; negative: never.
	StuckAfter time.Duration

	// Replication is the replication factor of internal topics. Defaults to the brokers' default. Kafka Streams key: replication.factor.
	Replication int16
	// CallTimeout is how long a single call of user code may take before its task is given up here and goes on elsewhere. Defaults to
	// 5 minutes. Not an interval between polls: heartbeats go on all the while.
	CallTimeout time.Duration
	// MaxStuck is how many such calls may never return before Run ends with a *StuckError. Defaults to 3.
	MaxStuck int
	// CloseTimeout is how long a clean end may take after the context of Run has ended. Defaults to 30 s.
	CloseTimeout time.Duration

	// TLS switches TLS on.
	TLS *tls.Config
	// SASL switches authentication on.
	SASL SASL
	// Client changes the connection settings for what has no field here (Kerberos, proxies). What the runtime relies on is set again
	// after it.
	Client func(*ClientConfig)
	// ClientID is sent with every request. Defaults to the application id. Kafka key: client.id.
	ClientID string
	// RequestTimeout bounds the wait for an answer. Defaults to 30 s. Kafka key: request.timeout.ms.
	RequestTimeout time.Duration

	// Log gets what an operator wants to know. Nil: no logging.
	Log *zap.Logger
	// Listener is told what happens.
	Listener Listener
}

const (
	defaultMemory      = 512 << 20
	minMemory          = 32 << 20
	defaultRecordBytes = 1<<20 - 512
)

func (c Config) withDefaults() Config {
	c.CommitInterval = cmp.Or(c.CommitInterval, time.Second)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.MaxRecordBytes = cmp.Or(c.MaxRecordBytes, defaultRecordBytes)
	c.Memory = cmp.Or(c.Memory, defaultMemory)
	c.Session = cmp.Or(c.Session, 15*time.Second)
	c.Rebalance = cmp.Or(c.Rebalance, c.Session+5*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, min(max(c.Session/30, 200*time.Millisecond), 500*time.Millisecond))
	c.Capacity = cmp.Or(c.Capacity, 1)
	c.Replication = cmp.Or(c.Replication, -1)
	c.CallTimeout = cmp.Or(c.CallTimeout, 5*time.Minute)
	c.MaxStuck = cmp.Or(c.MaxStuck, 3)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 30*time.Second)
	c.LearnRate = cmp.Or(c.LearnRate, 64<<20)
	c.AcceptableLag = cmp.Or(c.AcceptableLag, 10_000)
	c.RecoverAbove = cmp.Or(c.RecoverAbove, 10_000)
	c.Coalesce = cmp.Or(c.Coalesce, 5*time.Second)
	c.MetadataInterval = cmp.Or(c.MetadataInterval, 30*time.Second)
	c.StuckAfter = cmp.Or(c.StuckAfter, 5*time.Minute)
	c.StateCleanup = cmp.Or(c.StateCleanup, time.Hour)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Minute)
	c.ClientID = cmp.Or(c.ClientID, c.ApplicationID)
	if !c.OnFailure.Named() {
		c.OnFailure = retry.Ordered()
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// ConfigError lists everything that is wrong with a Config.
type ConfigError struct{ Faults []error }

func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString("streams: the configuration has faults:")
	for _, f := range e.Faults {
		b.WriteString("\n  - " + f.Error())
	}
	return b.String()
}

// Unwrap returns the faults.
func (e *ConfigError) Unwrap() []error { return e.Faults }

// validate checks a Config that has its defaults. stateful says whether the topology has stores; faults are those that the topology finds
// in it.
func (c Config) validate(stateful bool, faults []error) error {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := checkName("ApplicationID", c.ApplicationID); err != nil {
		faults = append(faults, err)
	}
	if stateful && c.StateDir == "" {
		fault("StateDir is empty: the topology has stores, name a directory that survives restarts")
	}
	c.validateTimes(fault)
	for name, r := range map[string]Reset{"NoOffset": c.NoOffset, "OutOfRange": c.OutOfRange} {
		if !r.valid() {
			fault("%s is %d: use ResetStop, ResetEarliest or ResetLatest", name, r)
		}
	}
	if c.Memory < minMemory {
		fault("Memory is %d bytes: at least %d MiB are needed, or 0 for the default of 512 MiB", c.Memory, minMemory>>20)
	}
	c.validateNumbers(fault)
	c.validateTags(fault)
	if c.Replication < -1 {
		fault("Replication is %d: use a positive number, or 0 for the brokers' default", c.Replication)
	}
	if !c.Recovery.valid() {
		fault("Recovery is %d: use RecoverSerial or RecoverParallel", c.Recovery)
	}
	if err := c.OnFailure.Validate(); err != nil {
		faults = append(faults, unjoin(err)...)
	}
	if err := c.client().Validate(); err != nil {
		faults = append(faults, unjoin(err)...)
	}
	if len(faults) > 0 {
		return &ConfigError{Faults: faults}
	}
	return nil
}

func (c Config) validateTimes(fault func(string, ...any)) {
	times := []struct {
		name string
		d    time.Duration
	}{
		{"CommitInterval", c.CommitInterval}, {"Linger", c.Linger}, {"Session", c.Session}, {"Rebalance", c.Rebalance}, {"Heartbeat", c.Heartbeat},
		{"CallTimeout", c.CallTimeout}, {"CloseTimeout", c.CloseTimeout}, {"Coalesce", c.Coalesce}, {"StateCleanup", c.StateCleanup},
		{"DrainTimeout", c.DrainTimeout}, {"MetadataInterval", c.MetadataInterval},
	}
	for _, t := range times {
		if t.d < 0 {
			fault("%s is %v: it must be positive, or 0 for the default", t.name, t.d)
		}
	}
	if c.Heartbeat*3 > c.Session {
		fault("Heartbeat is %v and Session %v: a session must be at least three heartbeats long", c.Heartbeat, c.Session)
	}
}

func (c Config) validateNumbers(fault func(string, ...any)) {
	numbers := []struct {
		name string
		n    int64
	}{
		{"MaxRecordBytes", int64(c.MaxRecordBytes)}, {"CommitBytes", int64(c.CommitBytes)}, {"Capacity", int64(c.Capacity)}, {"MaxStuck", int64(c.MaxStuck)},
		{"Standbys", int64(c.Standbys)}, {"LearnersPerProcess", int64(c.LearnersPerProcess)}, {"Learners", int64(c.Learners)}, {"AcceptableLag", c.AcceptableLag},
		{"RecoverAbove", c.RecoverAbove},
	}
	for _, f := range numbers {
		if f.n < 0 {
			fault("%s is %d: it must be positive, or 0 for the default", f.name, f.n)
		}
	}
}

// The most that Tags may be: every process repeats them in every rebalance. They are Kafka Streams'.
const (
	maxTags     = 5
	maxTagKey   = 20
	maxTagValue = 30
)

func (c Config) validateTags(fault func(string, ...any)) {
	if len(c.Tags) > maxTags {
		fault("Tags has %d tags: use %d at the most", len(c.Tags), maxTags)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Tags)) {
		if key == "" || len(key) > maxTagKey || len(c.Tags[key]) > maxTagValue {
			fault("Tags has %q=%q: a key takes 1 to %d bytes, a value up to %d", key, c.Tags[key], maxTagKey, maxTagValue)
		}
	}
	for i, key := range c.SpreadTags {
		if _, has := c.Tags[key]; !has {
			fault("SpreadTags has %q, which is not a key of Tags: set it there, to where this process is", key)
		}
		if slices.Contains(c.SpreadTags[:i], key) {
			fault("SpreadTags has %q twice", key)
		}
	}
}

func unjoin(err error) []error {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	return []error{err}
}

// client is the part of the configuration that concerns connections.
func (c Config) client() kafka.Config {
	return kafka.Config{
		Brokers: c.Brokers, ClientID: c.ClientID, TLS: c.TLS, SASL: c.SASL, Sarama: c.Client, RequestTimeout: c.RequestTimeout, Log: c.Log,
	}
}

// String leaves secrets out.
func (c Config) String() string {
	return fmt.Sprintf("application=%q state=%q memory=%d %v", c.ApplicationID, c.StateDir, c.Memory, c.client())
}

// GoString leaves secrets out.
func (c Config) GoString() string { return "streams.Config{" + c.String() + "}" }
