package streamstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// Cluster runs one application as a group of members, on virtual time: nothing happens but in [Cluster.Run] and its like, which play what
// happens in that time at once. See [NewCluster].
type Cluster struct {
	t TB
	o settings
	b *streams.Builder

	world    *virtual.World
	trace    virtual.Trace
	topology *streams.Topology
	group    string
	counts   map[string]int32 // partitions of all topics that the application knows
	topics   map[string]*topic
	members  []*Member
	rounds   []Rebalance
	starts   int // of tasks
	err      error
	reported bool      // what happened last
	instant  time.Time // the last that was played, for as many events as played
	played   int
}

// NewCluster builds the topology for a group of members and starts them: three, unless [Members] says otherwise. It returns when they have formed
// their group and every task runs. A topology or configuration with faults fails the test.
//
// Each member is what a process of the application is, with the very machinery: it joins the group, learns and hands over tasks, fetches,
// processes, commits, keeps standbys, and heeds the lease that its heartbeats give it. Its configuration is a [streams.Config], of which what concerns
// addresses, files and connections is not used. Brokers (three, none of which fails) and network are models; a message takes up to a millisecond.
//
// All of it is on the goroutine of the test: functions of the topology, too. They take no time but what their member is slowed by (see
// [Member.Slow]), may do real I/O, and share their variables among all members, as the builder is one. Where they ask for the time it must be that
// of their record or of the processor's context; the wall clock of the machine has nothing to do with a cluster's.
//
// Topics are there from the beginning: a source that reads a pattern has those which match it of the topics that [Partitions] names.
//
// One seed ([Seed]) decides how long everything takes and in what order things happen that happen at once. A test that fails says which, and prints
// what happened last.
func NewCluster(t TB, b *streams.Builder, opts ...Option) *Cluster {
	t.Helper()
	o := newSettings(opts)
	if len(o.driverOnly) > 0 {
		t.Fatalf("streamstest: %s: for New, not for NewCluster", strings.Join(o.driverOnly, ", "))
	}
	c := &Cluster{t: t, o: o, b: b, topics: make(map[string]*topic), trace: virtual.NewTrace()}
	app, err := streams.New(b, c.config(0))
	if err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	if c.topology, err = app.Topology().Match(o.given()); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	c.group = c.topology.ApplicationID()
	if c.counts, err = c.topology.Partitions(c.external); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	for _, sink := range c.topology.Sinks {
		c.counts[sink], _ = c.external(sink)
		if c.counts[sink] == 0 {
			t.Fatalf("streamstest: topic %q is written and does not exist: Partitions gives it none", sink)
		}
	}
	c.world = virtual.New(virtual.Config{
		Begin: o.start, Rand: rand.New(rand.NewPCG(o.seed, 0x636c7573)), Pace: usualPace, Observe: (*network)(c),
		Brokers: modelbroker.Config{Brokers: brokers, Seed: o.seed, Topics: c.allTopics(), InitialRebalanceDelay: 3 * time.Second},
	})
	t.Cleanup(c.end)
	for range o.members {
		c.Add()
	}
	if o.members > 0 {
		c.Settle(2 * time.Minute)
	}
	return c
}

// brokers is how many there are.
const brokers = 3

// usualPace is that of processes and brokers in one data centre.
var usualPace = virtual.Pace{
	Hop: 20 * time.Microsecond, Net: time.Millisecond, Write: time.Millisecond, Work: 200 * time.Microsecond, Turn: 64,
}

// external is the number of partitions of a topic of the user.
func (c *Cluster) external(topic string) (int32, bool) {
	n, said := c.o.partitions[topic]
	if !said {
		n = 1
	}
	return n, n > 0
}

// allTopics are those that the application reads and writes, and those that Partitions names.
func (c *Cluster) allTopics() map[string]modelbroker.TopicConfig {
	const widest = "9223372036854775807"
	all := map[string]modelbroker.TopicConfig{}
	add := func(name string, n int32, configs map[string]string) {
		all[name] = modelbroker.TopicConfig{Partitions: n, Configs: configs}
	}
	anyTime := map[string]string{"message.timestamp.after.max.ms": widest}
	for name, n := range c.o.partitions {
		if n > 0 {
			c.counts[name] = n
			add(name, n, anyTime)
		}
	}
	for name, n := range c.counts {
		add(name, n, anyTime)
	}
	for _, in := range c.topology.Internal {
		add(in.Name, c.counts[in.Name], in.Configs)
	}
	return all
}

// Topology returns the topology that the members run.
func (c *Cluster) Topology() *streams.Topology { return c.topology }

// Now returns the time in the cluster.
func (c *Cluster) Now() time.Time { return c.world.Now }

// Member returns a member by its number: those of [NewCluster] first, then those of [Cluster.Add].
func (c *Cluster) Member(n int) *Member {
	c.t.Helper()
	if n < 0 || n >= len(c.members) {
		c.t.Fatalf("streamstest: there is no member %d: the cluster has %d, from 0 on", n, len(c.members))
	}
	return c.members[n]
}

// Members returns all members, also those that do not run.
func (c *Cluster) Members() []*Member { return append([]*Member(nil), c.members...) }

// Add starts one more member, with a disk of its own.
func (c *Cluster) Add() *Member {
	c.t.Helper()
	m := newMember(c, len(c.members))
	c.members = append(c.members, m)
	m.start()
	return m
}

// Run lets that much time pass. It fails the test if a member ends with an error.
func (c *Cluster) Run(d time.Duration) {
	c.t.Helper()
	if err := c.TryRun(d); err != nil {
		c.fail("%v", err)
	}
}

// TryRun is Run for members that may end with an error, as an application does whose policy is to stop: it returns that error at the moment at which
// it comes. The member can be started again with [Member.Restart], and the time goes on with the next call.
func (c *Cluster) TryRun(d time.Duration) error {
	c.t.Helper()
	if d < 0 {
		c.t.Fatalf("streamstest: Run(%v): time goes on only forward", d)
	}
	c.err = nil
	c.world.RunTo(c.world.Now.Add(d), c.stops)
	return c.err
}

// stops ends a run with the first error, and one that comes to no end.
func (c *Cluster) stops() bool {
	if !c.instant.Equal(c.world.Now) {
		c.instant, c.played = c.world.Now, 0
	}
	if c.played++; c.played > mostAtOnce {
		c.err = fmt.Errorf("%d things have happened at %v, and it comes to no end", mostAtOnce, c.since(c.instant))
	}
	return c.err != nil
}

// mostAtOnce is far more than ever happens in one nanosecond.
const mostAtOnce = 1 << 20

func (c *Cluster) since(at time.Time) time.Duration { return at.Sub(c.o.start) }

// step is how often conditions are looked at.
const step = 10 * time.Millisecond

// RunUntil lets time pass until a condition holds, which it looks at every 10 ms. It fails the test if it does not within that time.
func (c *Cluster) RunUntil(condition func() bool, within time.Duration) {
	c.t.Helper()
	if !c.until(condition, within) {
		c.fail("the condition of RunUntil does not hold after %v", within)
	}
}

func (c *Cluster) until(condition func() bool, within time.Duration) bool {
	c.t.Helper()
	for end := c.world.Now.Add(within); !condition(); {
		if !c.world.Now.Before(end) {
			return false
		}
		c.Run(min(step, end.Sub(c.world.Now)))
	}
	return true
}

// fail ends the test with what happened last.
func (c *Cluster) fail(format string, args ...any) {
	c.t.Helper()
	c.reported = true
	c.t.Fatalf("streamstest: at %v: %s\n%s", c.since(c.world.Now), fmt.Sprintf(format, args...), c.report())
}

// report is what a person has to find out what happened.
func (c *Cluster) report() string {
	return fmt.Sprintf("the last of what happened, seed %d (▶ a request, ◀ an answer):\n%s\n%s", c.o.seed, strings.Join(c.trace.Last(tracedLines, 0), "\n"), c.view())
}

const tracedLines = 60

// Trace returns the last things that happened, one a line: at most n, and at most about a thousand.
func (c *Cluster) Trace(n int) []string { return c.trace.Last(n, 0) }

// end says how to play the test again if it has failed, and closes what runs.
func (c *Cluster) end() {
	t, ok := c.t.(interface {
		Failed() bool
		Logf(format string, args ...any)
	})
	if ok && t.Failed() && !c.reported {
		t.Logf("streamstest: %s", c.report())
	}
	for _, m := range c.members {
		if m.p != nil {
			m.p.End()
			m.p = nil
		}
	}
}

var errNotThere = errors.New("nobody leads the partition")

// pipe writes a record to a topic of the user, at once.
func (c *Cluster) pipe(name string, key, value []byte, opts []PipeOption) error {
	c.t.Helper()
	n := c.counts[name]
	if n == 0 {
		c.t.Fatalf("streamstest: topic %q does not exist: the topology does not know it, and Partitions does not name it", name)
	}
	p := piped{at: c.world.Now}
	if key != nil {
		p.partition = task.PartitionFor(key, n)
	}
	for _, opt := range opts {
		opt(&p)
	}
	if p.partition < 0 || p.partition >= n {
		c.t.Fatalf("streamstest: topic %q has no partition %d: it has %d", name, p.partition, n)
	}
	tp := task.TopicPartition{Topic: name, Partition: p.partition}
	return c.append(tp, task.OutRecord{Key: key, Value: value, Timestamp: p.at.UnixMilli(), Headers: p.headers})
}

func (c *Cluster) append(tp task.TopicPartition, r task.OutRecord) error {
	node, _ := c.world.Broker.Leader(tp)
	conn, err := c.world.Broker.Dial(node)
	if err != nil {
		return errNotThere
	}
	batch := modelbroker.ProduceBatch{TopicPartition: tp, ProducerID: -1, Records: []task.OutRecord{r}}
	before := c.world.Broker.End(tp)
	c.world.Broker.Receive(c.world.Now, conn, c.world.NextID(), modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{batch}})
	c.world.Collect()
	c.world.Broker.Hangup(conn)
	if c.world.Broker.End(tp) == before {
		return fmt.Errorf("the broker refuses the record: its time is %v", time.UnixMilli(r.Timestamp).UTC())
	}
	c.log(tp.Topic).append(tp.Partition, r)
	return nil
}

// PipeRaw writes a record as bytes; nil is null.
func (c *Cluster) PipeRaw(topic string, key, value []byte, opts ...PipeOption) {
	c.t.Helper()
	if err := c.pipe(topic, key, value, opts); err != nil {
		c.t.Fatalf("streamstest: pipe to %s: %v", topic, err)
	}
}

func (c *Cluster) tb() TB              { return c.t }
func (c *Cluster) specs() []*task.Spec { return c.topology.Subtopologies }

// log returns a topic as it was written, whatever of it is deleted or compacted since.
func (c *Cluster) log(name string) *topic {
	l := c.topics[name]
	if l == nil {
		l = &topic{partitions: make([][]task.Record, max(c.counts[name], 1))}
		c.topics[name] = l
	}
	return l
}
