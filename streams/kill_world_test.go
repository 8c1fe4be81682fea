//go:build failpoints

package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// killWorld is what outlives the processes of a case: a broker, the input, and an observer of offsets and of the repartition topic.
type killWorld struct {
	broker *broker.Broker
	client *broker.Client
	kgo    *kgo.Client
	admin  *kadm.Client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	fed [killPartitions]int64 // records of the input so far

	mu        sync.Mutex
	committed offsets                        // the newest seen
	metadata  map[task.TopicPartition]string // of these
	backwards error                          // an offset that went back
	live      map[string]bool
	log       map[int32]map[int64]id // the repartition topic
}

type offsets map[task.TopicPartition]int64

// death is what is there of a process that has died.
type death struct {
	committed offsets
	above     map[task.TopicPartition]retry.Metadata // what is done above them
	parked    map[retry.Origin]bool                  // records that were put aside
}

// death is what is there now.
func (w *killWorld) death() (d death, err error) {
	d = death{committed: w.sample(), above: map[task.TopicPartition]retry.Metadata{}}
	w.mu.Lock()
	for tp, text := range w.metadata {
		if tp.Topic != killIn && tp.Topic != killRepartition {
			continue // copies tell each other what they have
		}
		m, merr := retry.ParseMetadata(text, d.committed[tp], -1)
		d.above[tp], err = m, errors.Join(err, merr)
	}
	w.mu.Unlock()
	if err != nil {
		return d, err
	}
	if d.parked, err = w.parked(); errors.Is(err, kerr.UnknownTopicOrPartition) { // it has died before it made the topics
		err = nil
	}
	return d, err
}

// done says whether a commit has the record of an offset.
func (d *death) done(tp task.TopicPartition, offset int64) bool {
	if offset < d.committed[tp] {
		return true
	}
	m := d.above[tp]
	return len(m.Holes) > 0 && offset < m.Main && !slices.ContainsFunc(m.Holes, func(r retry.Run) bool { return r.From <= offset && offset < r.To })
}

// parked are the records that lie in the retry topics. It fails as long as these are not made.
func (w *killWorld) parked() (map[retry.Origin]bool, error) {
	out := map[retry.Origin]bool{}
	for _, store := range []string{killInRetry, killRoutedRetry} {
		logs, err := w.client.Consume(w.ctx, killChangelog(store))
		if err != nil {
			return nil, err
		}
		for _, log := range logs {
			for key := range foldLog(log, int64(len(log))) {
				o, _, err := retry.ParseKey([]byte(key))
				if err != nil {
					return nil, err
				}
				o.ID = retry.TopicID{} // it is asked for by what a record's place is
				out[o] = true
			}
		}
	}
	return out, nil
}

func newKillWorld() (w *killWorld, err error) {
	w = &killWorld{committed: offsets{}, metadata: map[task.TopicPartition]string{}, live: map[string]bool{}, log: map[int32]map[int64]id{}}
	w.ctx, w.cancel = context.WithTimeout(context.Background(), 3*time.Minute)
	topics := map[string]int32{killIn: killPartitions, killOut(killDirect): killPartitions, killOut(killRouted): killPartitions}
	if w.broker, err = broker.Start(broker.Options{Topics: topics}); err != nil {
		return nil, err
	}
	w.broker.Cluster().ControlKey(kmsg.DeleteRecords.Int16(), w.purging)
	soon := []kgo.Opt{kgo.MetadataMinAge(20 * time.Millisecond), kgo.MetadataMaxAge(100 * time.Millisecond)} // new topics are seen
	if w.client, err = broker.NewClient(w.broker.Addrs(), soon...); err != nil {
		return nil, err
	}
	w.kgo, err = kgo.NewClient(append(soon,
		kgo.SeedBrokers(w.broker.Addrs()...), kgo.ConsumeTopics(killRepartition), kgo.FetchMaxWait(20*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	w.admin = kadm.NewClient(w.kgo)
	w.wg.Go(w.tail)
	w.wg.Go(w.watch)
	return w, nil
}

func (w *killWorld) close() {
	w.cancel()
	w.wg.Wait()
	w.kgo.Close()
	w.client.Close()
	w.broker.Close()
}

// feed adds n records to each partition of the input.
func (w *killWorld) feed(n int) error {
	for p := range int32(killPartitions) {
		rs := make([]task.OutRecord, n)
		for i := range rs {
			x := newID(p, w.fed[p]+int64(i))
			rs[i] = task.OutRecord{Key: []byte(x.key()), Value: x.value(), Timestamp: 1_700_000_000_000 + x.offset()}
		}
		if err := w.client.Produce(w.ctx, task.TopicPartition{Topic: killIn, Partition: p}, rs...); err != nil {
			return err
		}
		w.fed[p] += int64(n)
	}
	return nil
}

// tail reads the repartition topic along, since the application deletes what it has read.
func (w *killWorld) tail() {
	for w.ctx.Err() == nil {
		w.kgo.PollFetches(w.ctx).EachRecord(func(r *kgo.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.log[r.Partition] == nil {
				w.log[r.Partition] = map[int64]id{}
			}
			w.log[r.Partition][r.Offset] = idOf(r.Value)
		})
	}
}

// purging lets the application delete nothing that has not been read along.
func (w *killWorld) purging(req kmsg.Request) (kmsg.Response, error, bool) {
	w.broker.Cluster().KeepControl()
	w.broker.Cluster().SleepControl(func() {
		for _, topic := range req.(*kmsg.DeleteRecordsRequest).Topics {
			for _, p := range topic.Partitions {
				w.await(p.Partition, p.Offset)
			}
		}
	})
	return nil, nil, false
}

// await waits until the repartition topic has been read up to an offset.
func (w *killWorld) await(partition int32, offset int64) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for w.ctx.Err() == nil {
		w.mu.Lock()
		_, ok := w.log[partition][offset-1]
		w.mu.Unlock()
		if ok {
			return
		}
		<-tick.C
	}
}

// purged says whether all of the repartition topic has been deleted.
func (w *killWorld) purged() bool {
	starts, err := w.admin.ListStartOffsets(w.ctx, killRepartition)
	if err != nil || starts.Error() != nil {
		return false
	}
	ends, err := w.admin.ListEndOffsets(w.ctx, killRepartition)
	ok := err == nil && ends.Error() == nil
	starts.Each(func(o kadm.ListedOffset) {
		end, found := ends.Lookup(o.Topic, o.Partition)
		ok = ok && found && end.Offset == o.Offset
	})
	return ok
}

// watch looks at the committed offsets, and takes members out of the group that are dead, as the end of their session would.
func (w *killWorld) watch() {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		w.sample()
		if n%4 == 0 {
			w.bury()
		}
	}
}

// sample notes the committed offsets and returns them. None may go back.
func (w *killWorld) sample() offsets {
	w.mu.Lock()
	defer w.mu.Unlock()
	got, err := w.client.Committed(w.ctx, killApp)
	for tp, o := range got {
		if err == nil && o.Offset < w.committed[tp] {
			w.backwards = errors.Join(w.backwards, fmt.Errorf("the committed offset of %v went back from %d to %d", tp, w.committed[tp], o.Offset))
		}
		if o.Offset >= 0 {
			w.committed[tp], w.metadata[tp] = o.Offset, o.Metadata
		}
	}
	out := offsets{}
	for tp, o := range w.committed {
		out[tp] = o
	}
	return out
}

// wentBack says which committed offsets went back, if any.
func (w *killWorld) wentBack() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.backwards
}

// born makes a life known, by its client id.
func (w *killWorld) born(life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live[life] = true
}

func (w *killWorld) died(life string) {
	w.mu.Lock()
	delete(w.live, life)
	w.mu.Unlock()
	w.bury()
}

func (w *killWorld) bury() {
	groups, err := w.admin.DescribeGroups(w.ctx, killApp)
	if err != nil {
		return // there is no group yet
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = killApp
	w.mu.Lock()
	for _, m := range groups[killApp].Members {
		if !w.live[m.ClientID] {
			gone := kmsg.NewLeaveGroupRequestMember()
			gone.MemberID = m.MemberID
			leave.Members = append(leave.Members, gone)
		}
	}
	w.mu.Unlock()
	if len(leave.Members) > 0 {
		_, _ = leave.RequestWith(w.ctx, w.kgo) // it is asked for again as long as it is needed
	}
}

// caughtUp says whether everything that was fed is committed, behind the repartition topic too, and nothing is put aside.
func (w *killWorld) caughtUp() bool {
	done := w.sample()
	for p := range int32(killPartitions) {
		if done[task.TopicPartition{Topic: killIn, Partition: p}] < w.fed[p] {
			return false
		}
	}
	ends, err := w.admin.ListEndOffsets(w.ctx, killRepartition)
	if err != nil || ends.Error() != nil {
		return false
	}
	ok := true
	ends.Each(func(o kadm.ListedOffset) {
		ok = ok && done[task.TopicPartition{Topic: o.Topic, Partition: o.Partition}] >= o.Offset
	})
	if !ok {
		return false
	}
	parked, err := w.parked()
	return err == nil && len(parked) == 0
}

// anew deletes the changelogs and makes them again with what was in them, as a copy from a mirror would.
func (w *killWorld) anew() error {
	for _, store := range killStores {
		topic := killChangelog(store)
		logs, err := w.client.Consume(w.ctx, topic)
		if err != nil {
			return err
		}
		configs, err := w.admin.DescribeTopicConfigs(w.ctx, topic)
		if err != nil {
			return err
		}
		same := map[string]string{}
		for _, c := range configs[0].Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig && c.Value != nil {
				same[c.Key] = *c.Value
			}
		}
		if err := w.client.DeleteTopic(w.ctx, topic); err != nil {
			return err
		}
		if err := w.client.CreateTopic(w.ctx, topic, killPartitions, same); err != nil {
			return err
		}
		for p, records := range logs {
			out := make([]task.OutRecord, len(records))
			for i, r := range records {
				out[i] = task.OutRecord{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
			}
			if err := w.client.Produce(w.ctx, task.TopicPartition{Topic: topic, Partition: p}, out...); err != nil {
				return err
			}
		}
	}
	return nil
}

// begun says whether every partition of the input has a commit.
func (w *killWorld) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range int32(killPartitions) {
		if w.committed[task.TopicPartition{Topic: killIn, Partition: p}] == 0 {
			return false
		}
	}
	return true
}

// ends says whether every partition of a topic has so many records.
func (w *killWorld) ends(topic string, least int64) bool {
	ends, err := w.admin.ListEndOffsets(w.ctx, topic)
	ok := err == nil && ends.Error() == nil
	ends.Each(func(o kadm.ListedOffset) { ok = ok && o.Offset >= least })
	return ok
}
