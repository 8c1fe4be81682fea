package modelbroker

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Config sets up a Broker. The zero value of each field is useful.
type Config struct {
	// Brokers is the number of nodes, numbered from 0. Defaults to 1.
	Brokers int
	// Topics exist from the start. Their configs are taken unchecked.
	Topics map[string]TopicConfig
	// Seed makes topic ids and member ids.
	Seed uint64
	// Failover is how long after a crash the leaders and coordinators of the node move. Defaults to 8.3 s, as measured with the default
	// broker.session.timeout.ms.
	Failover time.Duration
	// LeaderSettle is how long a new leader still answers NOT_LEADER_OR_FOLLOWER to Produce and ListOffsets. Defaults to 0.
	LeaderSettle time.Duration
	// Load is how long a new coordinator answers COORDINATOR_LOAD_IN_PROGRESS. Defaults to 0.
	Load time.Duration
	// InitialRebalanceDelay is group.initial.rebalance.delay.ms. Defaults to 0, where a broker has 3 s.
	InitialRebalanceDelay time.Duration
	// MinSession and MaxSession bound the session timeouts. They default to 6 s and 30 min.
	MinSession, MaxSession time.Duration
	// Lends says that the log shares its bytes with the requests and answers that they come and go with: nobody may change them any more.
	// Without it records are copied both ways.
	Lends bool
	// Committed is told of every offset that is committed. May be nil.
	Committed func(Commit)
}

// TopicConfig describes a topic. Partitions and Replication below 1 stand for the broker's defaults: 1, and 3 or the number of nodes if that
// is less.
type TopicConfig struct {
	Partitions  int32
	Replication int16
	Configs     map[string]string
}

// Commit is one committed offset, for the oracles of a simulation.
type Commit struct {
	At         time.Time
	Group      string
	MemberID   string
	Generation int32
	task.TopicPartition
	Before, Offset int64 // Before is -1 if nothing was committed
	Metadata       string
}

// Broker is the model of a cluster. Not safe for concurrent use.
type Broker struct {
	cfg          Config
	rng          *rand.Rand
	now          time.Time
	nodes        []node
	topics       map[string]*topic
	groups       map[string]*group
	conns        map[Conn]*conn
	lastConn     Conn
	lastProducer int64
	ready        []*conn // connections that may serve their next request
	fetches      []*parkedFetch
	timers       timers
	answers      []Answer
}

type node struct {
	up   bool
	down *timer // its failover, while it is crashed
}

// New returns a cluster whose nodes are all up.
func New(cfg Config) *Broker {
	cfg = cfg.withDefaults()
	b := &Broker{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6d6f64656c)),
		nodes: make([]node, cfg.Brokers), topics: map[string]*topic{}, groups: map[string]*group{}, conns: map[Conn]*conn{},
	}
	for i := range b.nodes {
		b.nodes[i].up = true
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Topics)) {
		b.addTopic(name, cfg.Topics[name])
	}
	return b
}

func (c Config) withDefaults() Config {
	c.Brokers = max(c.Brokers, 1)
	if c.Failover == 0 {
		c.Failover = 8300 * time.Millisecond
	}
	if c.MinSession == 0 {
		c.MinSession = 6 * time.Second
	}
	if c.MaxSession == 0 {
		c.MaxSession = 30 * time.Minute
	}
	return c
}

// Receive hands over a request that arrives at the node of c. The answer comes out of Answers with the same id, now or later. A request on
// a connection that is closed is lost.
func (b *Broker) Receive(now time.Time, c Conn, id uint64, req Request) {
	b.Advance(now)
	cn := b.conns[c]
	if cn == nil {
		return
	}
	cn.queue = append(cn.queue, &ticket{conn: cn, id: id, req: req})
	b.ready = append(b.ready, cn)
	b.pump()
	b.Advance(now) // what is due at once, such as the first barrier of a group without a delay
}

// Advance moves the time to now and does what is due until then, in order. A now that lies in the past moves nothing.
func (b *Broker) Advance(now time.Time) {
	for {
		t := b.timers.due(now)
		if t == nil {
			break
		}
		b.now = later(b.now, t.at)
		t.fire()
		b.pump()
	}
	b.now = later(b.now, now)
}

// Wake says when Advance has something to do next.
func (b *Broker) Wake() (time.Time, bool) { return b.timers.next() }

// Answers takes the answers that have come up since the last call, in order.
func (b *Broker) Answers() []Answer {
	a := b.answers
	b.answers = nil
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// handle answers a request, or keeps its ticket and returns nil.
func (b *Broker) handle(node int32, t *ticket) Response {
	switch r := t.req.(type) {
	case MetadataRequest:
		return b.metadata(r)
	case CreateTopicsRequest:
		return b.createTopics(r)
	case DeleteTopicsRequest:
		return b.deleteTopics(r)
	case TopicConfigsRequest:
		return b.topicConfigs(r)
	case ListOffsetsRequest:
		return b.listOffsets(node, r)
	case DeleteRecordsRequest:
		return b.deleteRecords(node, r)
	case InitProducerIDRequest:
		b.lastProducer++
		return InitProducerIDResponse{ProducerID: b.lastProducer}
	case ProduceRequest:
		return b.produce(node, r)
	case FetchRequest:
		return b.fetch(node, t, r)
	case FindCoordinatorRequest:
		return b.findCoordinator(r)
	default:
		return b.handleGroup(node, t)
	}
}

func (b *Broker) handleGroup(node int32, t *ticket) Response {
	switch r := t.req.(type) {
	case JoinGroupRequest:
		return b.joinGroup(node, t, r)
	case SyncGroupRequest:
		return b.syncGroup(node, t, r)
	case HeartbeatRequest:
		return b.heartbeat(node, r)
	case LeaveGroupRequest:
		return b.leaveGroup(node, r)
	case OffsetCommitRequest:
		return b.commitOffsets(node, r)
	case OffsetFetchRequest:
		return b.fetchOffsets(node, r)
	}
	panic(fmt.Sprintf("modelbroker: unknown request %T", t.req))
}

// Addr is the address by which metadata names a node.
func Addr(node int32) string { return fmt.Sprintf("broker-%d:9092", node) }

// Node reads what Addr writes; -1 if addr is no address of a node.
func Node(addr string) int32 {
	s, ok := strings.CutPrefix(addr, "broker-")
	s, isPort := strings.CutSuffix(s, ":9092")
	n, err := strconv.ParseInt(s, 10, 32)
	if !ok || !isPort || err != nil || n < 0 {
		return -1
	}
	return int32(n)
}

func (b *Broker) up(node int32) bool {
	return node >= 0 && int(node) < len(b.nodes) && b.nodes[node].up
}

// place spreads names over the nodes, as Kafka does with the hash of a group.
func (b *Broker) place(name string) int32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int32(h.Sum32() % uint32(len(b.nodes)))
}

// nextUp is the first node at or after the given one that is up, -1 if all are down.
func (b *Broker) nextUp(from int32) int32 {
	for i := range len(b.nodes) {
		n := (from + int32(i)) % int32(len(b.nodes))
		if b.nodes[n].up {
			return n
		}
	}
	return -1
}

func (b *Broker) partition(tp task.TopicPartition) (*partition, kcode.Code) {
	t := b.topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.parts) {
		return nil, kcode.UnknownTopicOrPartition
	}
	return t.parts[tp.Partition], kcode.None
}
