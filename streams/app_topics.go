package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// topics checks and makes the topics of an application, and remembers their partition counts.
type topics struct {
	app    *App
	client *kafka.Client

	mu     sync.Mutex
	counts map[string]int32
	learnt map[string]task.Limits
	tasks  int // of the whole application

	missing time.Time // since when a topic of the user has been missing in a row of checks
	inputs  int       // partitions that are read
	looked  bool      // for records that nothing would run
}

func newTopics(a *App, c *kafka.Client) *topics {
	return &topics{app: a, client: c, counts: map[string]int32{}, learnt: map[string]task.Limits{}}
}

// temporary marks an error that is tried again.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// ensure checks the topics of the user, and makes the internal topics or validates those that exist. It may be called again, and by all
// processes at once.
func (t *topics) ensure(ctx context.Context) engine.TopicsReady {
	if err := t.leftovers(ctx); err != nil {
		return notReady(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	counts, ids, err := t.check(ctx)
	if err != nil {
		return notReady(err)
	}
	fail.Point("topics.checked")
	t.remember(counts)
	ready := engine.TopicsReady{Partitions: counts, IDs: ids, QueueBytes: t.budget().queue}
	if top := t.app.Topology(); top.patterned() {
		ready.Specs = top.Subtopologies
	}
	return ready
}

func notReady(err error) engine.TopicsReady {
	return engine.TopicsReady{Err: err, Temporary: errors.As(err, new(temporary))}
}

// check returns how many partitions each topic has, and its id if the broker tells it.
func (t *topics) check(ctx context.Context) (map[string]int32, map[string][16]byte, error) {
	md, err := t.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	top := t.app.Topology()
	have, ids, err := known(md)
	if err != nil {
		return nil, nil, t.denied(err)
	}
	for _, name := range slices.Concat(top.Sources, top.Sinks) {
		if have[name] == 0 {
			return nil, nil, t.absent(name)
		}
	}
	t.missing = time.Time{}
	want, err := top.PartitionsWith(func(topic string) (int32, bool) { n, ok := have[topic]; return n, ok }, func(topic string) int32 { return have[topic] })
	if err != nil {
		return nil, nil, err
	}
	if err := top.unmatched(want); err != nil {
		return nil, nil, temporary{err}
	}
	configs, err := t.configs(ctx)
	if err != nil {
		return nil, nil, err
	}
	made, err := t.internal(ctx, have, want, configs)
	if err != nil {
		return nil, nil, err
	}
	fail.Point("topics.made")
	if err := t.identify(ctx, made, ids); err != nil {
		return nil, nil, err
	}
	for _, name := range top.Sinks {
		want[name] = have[name]
	}
	return want, ids, nil
}

// look asks for all topics of the application. Those that patterns take in are found at the same time.
func (t *topics) look(ctx context.Context) (*kafka.Metadata, error) {
	top := t.app.Topology()
	if !top.patterned() {
		md, err := t.client.Metadata(ctx, top.topics())
		if err != nil {
			return nil, temporary{err}
		}
		return md, nil
	}
	md, err := t.client.Metadata(ctx, nil)
	if err != nil {
		return nil, temporary{err}
	}
	var there []string
	for name, topic := range md.Topics {
		if topic.Err == kcode.None && len(topic.Partitions) > 0 {
			there = append(there, name)
		}
	}
	next, err := top.Match(there)
	if err != nil {
		return nil, err
	}
	t.app.topology.Store(next)
	ours := next.topics()
	maps.DeleteFunc(md.Topics, func(name string, _ *kafka.Topic) bool { return !slices.Contains(ours, name) })
	return md, nil
}

// topics are all topics of the topology.
func (t *Topology) topics() []string {
	names := slices.Concat(t.Sources, t.Sinks)
	for _, in := range t.Internal {
		names = append(names, in.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unmatched reports an internal topic of which it is not known how many partitions it needs: that follows from topics of a pattern, and there is
// none yet.
func (t *Topology) unmatched(want map[string]int32) error {
	for _, in := range t.Internal {
		if want[in.Name] == 0 && t.patterned() {
			return fmt.Errorf("streams: no topic matches the pattern of the sources yet: %v", t.patterns())
		}
	}
	return nil
}

// patience is how long a topic of the user may be unknown at the start: a broker may not have heard of a topic that another one has just
// made.
const patience = 3 * time.Second

// absent is the error for a topic that the broker does not know. It is called from one check at a time.
func (t *topics) absent(name string) error {
	err := &MissingTopicError{Topic: name}
	if t.missing.IsZero() {
		t.missing = time.Now()
	}
	awaited := t.app.cfg.WaitForTopics && slices.Contains(t.app.Topology().Sources, name)
	if awaited || time.Since(t.missing) < patience {
		return temporary{err}
	}
	return err
}

// known returns the partition counts and the ids of the topics that exist.
func known(md *kafka.Metadata) (map[string]int32, map[string][16]byte, error) {
	have, ids := map[string]int32{}, map[string][16]byte{}
	for _, name := range slices.Sorted(maps.Keys(md.Topics)) {
		switch topic := md.Topics[name]; topic.Err {
		case kcode.None:
			have[name], ids[name] = int32(len(topic.Partitions)), topic.ID
		case kcode.UnknownTopicOrPartition:
		case kcode.TopicAuthorizationFailed, kcode.InvalidTopic:
			return nil, nil, &TopicRefusedError{Topic: name, Doing: "look at it", Err: topic.Err}
		default:
			return nil, nil, temporary{fmt.Errorf("streams: topic %q: %w", name, topic.Err)}
		}
	}
	return have, ids, nil
}

// identify learns the ids of topics that were made just now. The broker that is asked may not have heard of them yet. No store may be
// opened before: one of the topics may stand in for another that was deleted, and a store may hold what was in that.
func (t *topics) identify(ctx context.Context, made []string, ids map[string][16]byte) error {
	if len(made) == 0 {
		return nil
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for began := time.Now(); ; {
		md, err := t.client.Metadata(ctx, made)
		if err != nil {
			return temporary{err}
		}
		_, found, err := known(md)
		if err != nil && !errors.As(err, new(temporary)) {
			return t.denied(err)
		}
		if len(found) == len(made) {
			maps.Copy(ids, found)
			return nil
		}
		if time.Since(began) > patience {
			return temporary{fmt.Errorf("streams: the broker does not know all of the topics that were made: %q", made)}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return temporary{ctx.Err()}
		}
	}
}

// internal makes the internal topics that are missing, returns which, and validates the others.
func (t *topics) internal(ctx context.Context, have, want map[string]int32, configs map[string]map[string]string) (made []string, err error) {
	var missing []kafka.NewTopic
	var there []InternalTopic
	for _, in := range t.app.Topology().Internal {
		n := have[in.Name]
		switch {
		case n == 0:
			made = append(made, in.Name)
			missing = append(missing, kafka.NewTopic{
				Name: in.Name, Partitions: want[in.Name], Replication: t.app.cfg.Replication, Configs: configs[in.Name],
			})
		case n != want[in.Name]:
			return nil, &InternalTopicError{Topic: in.Name, Kind: in.Kind, What: "partitions", Have: fmt.Sprint(n), Want: fmt.Sprint(want[in.Name])}
		default:
			there = append(there, in)
		}
	}
	if err := t.validate(ctx, there, configs); err != nil {
		return nil, err
	}
	return made, t.create(ctx, missing)
}

// denied adds to an error what the application needs the topic for.
func (t *topics) denied(err error) error {
	var refused *TopicRefusedError
	if errors.As(err, &refused) {
		for _, in := range t.app.Topology().Internal {
			if in.Name == refused.Topic {
				refused.Kind = in.Kind
			}
		}
	}
	return err
}

func (t *topics) create(ctx context.Context, missing []kafka.NewTopic) error {
	if len(missing) == 0 {
		return nil
	}
	failed, err := t.client.CreateTopics(ctx, missing)
	if err != nil {
		return temporary{err}
	}
	for _, m := range missing {
		if err := failed[m.Name]; err != nil {
			return t.denied(created(m.Name, err))
		}
	}
	return nil
}

// created tells what is tried again from what is not: another process may have made the topic at this moment.
func created(name string, err error) error {
	var code kcode.Code
	wrapped := fmt.Errorf("streams: make internal topic %q: %w", name, err)
	if errors.As(err, &code) {
		switch code {
		case kcode.TopicAuthorizationFailed, kcode.ClusterAuthorization:
			return &TopicRefusedError{Topic: name, Doing: "make it", Err: err}
		case kcode.PolicyViolation, kcode.InvalidTopic, kcode.InvalidConfig, kcode.InvalidPartitions, kcode.InvalidReplicationFactor:
			return wrapped
		}
	}
	return temporary{wrapped}
}

// validate holds the configurations that matter of existing internal topics against what is needed.
func (t *topics) validate(ctx context.Context, there []InternalTopic, needed map[string]map[string]string) error {
	if len(there) == 0 {
		return nil
	}
	names := make([]string, len(there))
	for i, in := range there {
		names[i] = in.Name
	}
	configs, err := t.client.TopicConfigs(ctx, names)
	if errors.Is(err, kcode.TopicAuthorizationFailed) {
		i := slices.IndexFunc(there, func(in InternalTopic) bool { return configs[in.Name] == nil })
		return &TopicRefusedError{Topic: there[max(i, 0)].Name, Kind: there[max(i, 0)].Kind, Doing: "read its configurations", Err: kcode.TopicAuthorizationFailed}
	}
	if err != nil {
		return temporary{err}
	}
	for _, in := range there {
		if err := in.validate(needed[in.Name], configs[in.Name]); err != nil {
			return err
		}
	}
	return nil
}

// validate reports the first configuration that would lose data, or stop the application later. What the broker does not tell is taken to
// be right.
func (in *InternalTopic) validate(needed, have map[string]string) error {
	for _, key := range []string{"cleanup.policy", "message.timestamp.type", "retention.ms", maxMessageBytes} {
		want, cares := needed[key]
		got, tells := have[key]
		if cares && tells && !sameList(got, want) && !(key == maxMessageBytes && atLeast(got, want)) {
			return &InternalTopicError{Topic: in.Name, Kind: in.Kind, What: key, Have: got, Want: want}
		}
	}
	return nil
}

func atLeast(got, want string) bool {
	g, err := strconv.ParseInt(got, 10, 64)
	w, bad := strconv.ParseInt(want, 10, 64)
	return err == nil && bad == nil && g >= w
}

// sameList compares comma-separated lists without regard to order and spaces.
func sameList(a, b string) bool {
	split := func(s string) []string {
		parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '[' || r == ']' })
		slices.Sort(parts)
		return parts
	}
	return slices.Equal(split(a), split(b))
}

func (t *topics) remember(counts map[string]int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.counts, counts)
	t.tasks, t.inputs = 0, 0
	for _, s := range t.app.Topology().Subtopologies {
		for _, in := range s.Inputs {
			t.inputs += int(counts[in.Topic])
		}
		t.tasks += int(s.Tasks(func(topic string) int32 { return counts[topic] }))
	}
}

// budget divides the memory among the tasks of the application and the partitions that they read.
func (t *topics) budget() budget {
	t.mu.Lock()
	defer t.mu.Unlock()
	return budgetOf(t.app.cfg.Memory, t.tasks, t.inputs)
}

// partitions answers how many partitions a topic has, 0 if it does not exist. A topic that is not known yet, as one that is computed for
// a record, is asked for: only the task that needs it waits.
func (t *topics) partitions(ctx context.Context, topic string) int32 {
	t.mu.Lock()
	n, ok := t.counts[topic]
	t.mu.Unlock()
	if ok {
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	md, err := t.client.Metadata(ctx, []string{topic})
	if err != nil || md.Topics[topic] == nil || md.Topics[topic].Err != kcode.None {
		return 0
	}
	n = int32(len(md.Topics[topic].Partitions))
	t.mu.Lock()
	t.counts[topic] = n
	t.mu.Unlock()
	return n
}
