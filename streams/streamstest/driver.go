package streamstest

import (
	"strings"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// Driver runs one topology. A source that reads a pattern has the topics which match it of those that [Partitions] names, and of those that a
// record is piped to: then the tasks concerned commit what they have done, with [HoldCommits] too, and go on with the new topic.
type Driver struct {
	t        TB
	topology *streams.Topology
	o        settings

	now     time.Time
	counts  map[string]int32 // partitions of sources and internal topics
	deleted map[string]byte  // how often each topic was: with its name that is its id
	topics  map[string]*topic
	commits map[task.TopicPartition]task.InputOffset
	backend statestore.Backend
	runners []*runner
	dropped map[string]int64 // by the runners of earlier lives
	brokers Brokers
	died    bool // the last end was a crash
	err     error
}

// TB is what a Driver needs of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Option is an option of [New] or [NewCluster].
type Option func(*settings)

type settings struct {
	applicationID string
	partitions    map[string]int32
	hold          bool
	start         time.Time
	build         []streams.BuildOption
	failure       retry.Policy // as in build
	named         bool         // ApplicationID was given

	// Of a cluster.
	members     int
	seed        uint64
	config      streams.Config
	change      func(member int, cfg *streams.Config)
	clusterOnly []string // options that a Driver does not have
	driverOnly  []string // and those that a Cluster does not have
}

// Partitions sets the number of partitions of a topic, which is 1 otherwise. With 0 the topic does not exist.
func Partitions(topic string, n int32) Option {
	return func(s *settings) { s.partitions[topic] = n }
}

// HoldCommits leaves commits to [Driver.Commit]. Records are processed all the same when they are piped.
func HoldCommits() Option {
	return func(s *settings) { s.hold, s.driverOnly = true, append(s.driverOnly, "HoldCommits") }
}

// StartAt sets the wall clock. It starts at the beginning of 2024 otherwise.
func StartAt(at time.Time) Option { return func(s *settings) { s.start = at } }

// ApplicationID sets the application id, the prefix of internal topics. It is "test" otherwise. A topology that
// was built already has its own.
func ApplicationID(id string) Option {
	return func(s *settings) { s.applicationID, s.named = id, true }
}

// OnFailure sets the policy of sources that name none, as [streams.Config] does. Otherwise they stop at the first failure, so that a test
// sees its error at once.
func OnFailure(p retry.Policy) Option {
	return func(s *settings) { s.build, s.failure = []streams.BuildOption{streams.OnFailure(p)}, p }
}

// New builds a topology and starts its tasks. A topology with faults fails the test.
func New(t TB, b *streams.Builder, opts ...Option) *Driver {
	t.Helper()
	o := newSettings(opts)
	topology, err := b.Build(o.applicationID, o.build...)
	if err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	return start(t, topology, o)
}

// NewTopology starts the tasks of a topology that was built already.
func NewTopology(t TB, topology *streams.Topology, opts ...Option) *Driver {
	t.Helper()
	return start(t, topology, newSettings(opts))
}

func newSettings(opts []Option) settings {
	o := settings{
		applicationID: "test", partitions: make(map[string]int32), members: 3, seed: 1,
		start: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func start(t TB, topology *streams.Topology, o settings) *Driver {
	t.Helper()
	if len(o.clusterOnly) > 0 {
		t.Fatalf("streamstest: %s: for NewCluster, not for New", strings.Join(o.clusterOnly, ", "))
	}
	d := &Driver{
		t: t, topology: topology, o: o, now: o.start,
		topics: make(map[string]*topic), commits: make(map[task.TopicPartition]task.InputOffset),
		backend: statestore.NewMemory(), dropped: make(map[string]int64), deleted: make(map[string]byte),
	}
	var err error
	if d.topology, err = topology.Match(o.given()); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	if d.counts, err = d.topology.Partitions(d.external); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	if err := d.open(); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	t.Cleanup(d.stop)
	return d
}

// external is the number of partitions of a topic of the user.
func (d *Driver) external(topic string) (int32, bool) {
	n, said := d.o.partitions[topic]
	if !said {
		n = 1
	}
	return n, n > 0
}

// partitions is the number of partitions of any topic, 0 if there is none.
func (d *Driver) partitions(topic string) int32 {
	if n, ok := d.counts[topic]; ok {
		return n
	}
	n, _ := d.external(topic)
	return n
}

// Topology returns the topology that runs. With sources that read patterns it is another one whenever their topics have changed.
func (d *Driver) Topology() *streams.Topology { return d.topology }

// Now returns the wall clock.
func (d *Driver) Now() time.Time { return d.now }

// AdvanceWallClock moves the wall clock. Records that are to be tried again on the way are tried when they are due. Of the punctuations
// that became due from one such time to the next one runs for each schedule, as it would after a long pause.
func (d *Driver) AdvanceWallClock(by time.Duration) {
	d.t.Helper()
	d.advance(by)
	d.check()
}

// TryAdvanceWallClock is AdvanceWallClock for records and punctuations that may fail for good: it returns the error that an application would
// end with.
func (d *Driver) TryAdvanceWallClock(by time.Duration) error {
	d.t.Helper()
	d.advance(by)
	return d.err
}

func (d *Driver) advance(by time.Duration) {
	end := d.now.Add(by)
	for d.err == nil {
		next, found := d.nextTry(end)
		if !found {
			break
		}
		d.moveTo(next)
	}
	d.moveTo(end)
}

func (d *Driver) moveTo(now time.Time) {
	d.now = now
	for _, r := range d.runners {
		r.step(task.Tick{})
	}
	d.settle()
}

// Commit commits everything that was processed, and goes on until nothing is left to process or commit.
func (d *Driver) Commit() {
	d.t.Helper()
	d.commit()
	d.check()
}

// TryCommit is Commit for an emission that may fail: it returns the error that an application would end with.
func (d *Driver) TryCommit() error {
	d.t.Helper()
	d.commit()
	return d.err
}

// Err returns why a task has stopped: a [*streams.RecordError] if a record failed. It is nil while all tasks run.
func (d *Driver) Err() error { return d.err }

// check fails the test if a task has stopped.
func (d *Driver) check() {
	if d.err != nil {
		d.t.Helper()
		d.t.Fatalf("streamstest: %v", d.err)
	}
}

// Dropped returns how many records were left out for a reason, over all tasks and restarts: "null-key", "null-value", "negative-timestamp".
func (d *Driver) Dropped(reason string) int64 {
	n := d.dropped[reason]
	for _, r := range d.runners {
		n += r.dropped()[reason]
	}
	return n
}

// Committed returns the committed offset of an input partition: everything below it is done.
func (d *Driver) Committed(topic string, partition int32) int64 {
	return d.commits[task.TopicPartition{Topic: topic, Partition: partition}].Offset
}

// publicError is the error as an application returns it.
func publicError(err error) error {
	if e := streams.NewRecordError(err); e != nil {
		return e
	}
	return err
}

// Restart ends all tasks at once, without a commit, and starts them again from what was committed. Outputs stay, so that records that were
// processed and not committed are seen to be written twice. With keepState the stores are still there; without they are restored from
// their changelogs, as in a task that moved.
func (d *Driver) Restart(keepState bool) {
	d.t.Helper()
	d.restart(keepState, false)
}

// Crash is Restart for a process that has died, in the middle of a record perhaps. After two such ends without progress a task takes records
// one at a time and commits before each, also with [HoldCommits]; so it finds out by which record a process dies.
func (d *Driver) Crash(keepState bool) {
	d.t.Helper()
	d.restart(keepState, true)
}

func (d *Driver) restart(keepState, died bool) {
	d.t.Helper()
	d.died = died
	d.stop()
	if !keepState {
		d.backend = statestore.NewMemory()
	}
	d.err = nil
	err := d.open()
	if err == nil {
		d.settle()
		err = d.err
	}
	if err != nil {
		d.t.Fatalf("streamstest: restart: %v", err)
	}
}

// open starts a runner for each task.
func (d *Driver) open() error {
	for _, spec := range d.topology.Subtopologies {
		for p := range spec.Tasks(d.partitions) {
			r, err := newRunner(d, spec, p)
			if err != nil {
				return err
			}
			d.runners = append(d.runners, r)
		}
	}
	return nil
}

// stop ends the tasks without a commit.
func (d *Driver) stop() {
	for _, r := range d.runners {
		d.end(r)
	}
	d.runners = nil
}

func (d *Driver) end(r *runner) {
	for reason, n := range r.dropped() {
		d.dropped[reason] += n
	}
	if err := r.close(); err != nil {
		d.t.Errorf("streamstest: close: %v", err)
	}
}
