package streams_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// ledgerTopology copies each record, and counts them by key over a repartition topic and a store.
func ledgerTopology(in, copies, counts string) *streams.Builder {
	b := streams.NewBuilder()
	s := b.Stream(in, serde.String, serde.String)
	s.To(copies)
	s.GroupBy(func(key, _ string) string { return "of " + key }).Count("counts").ToStream().To(counts)
	return b
}

const (
	ledgerPartitions = 3
	ledgerKeys       = 7 // of each partition
)

// ledger is a load whose every record is known: partition p gets the values p-0, p-1 and so on, under a few keys of its own.
type ledger struct {
	*bed
	admin            *kadm.Client
	app              string
	in, copies, outs string
	pad              int // bytes that make records larger, and that nothing compresses

	turn [ledgerPartitions]sync.Mutex // of who writes, so that a partition has its records in order
	sent [ledgerPartitions]atomic.Int64
	once sync.Once
	stop chan struct{}
	done chan struct{}
}

func newLedger(b *bed, admin *kadm.Client, pad int) *ledger {
	return &ledger{
		bed: b, admin: admin, app: b.name("ledger"), in: b.topic("in", ledgerPartitions), copies: b.topic("copies", ledgerPartitions), outs: b.topic("counts", ledgerPartitions),
		pad: pad, stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// write writes the next records of a partition.
func (l *ledger) write(p, n int) {
	l.turn[p].Lock()
	defer l.turn[p].Unlock()
	rs := make([]task.OutRecord, n)
	for i := range rs {
		seq := l.sent[p].Add(1) - 1
		rs[i] = task.OutRecord{
			Key: fmt.Appendf(nil, "%d/%d", p, seq%ledgerKeys), Value: fmt.Appendf(nil, "%d-%d-%s", p, seq, noise(l.pad)), Timestamp: time.Now().UnixMilli(),
		}
	}
	if err := l.client.Produce(context.Background(), task.TopicPartition{Topic: l.in, Partition: int32(p)}, rs...); err != nil {
		l.t.Errorf("load: %v", err)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32()) //nolint:gosec // of a test
	}
	return b
}

// flow writes so many records a second until end.
func (l *ledger) flow(perSecond int) {
	l.t.Cleanup(l.end)
	const tick = 100 * time.Millisecond
	n := max(1, perSecond/ledgerPartitions/int(time.Second/tick))
	go func() {
		defer close(l.done)
		l.every(tick, func() { l.writeAll(n) })
	}()
}

func (l *ledger) writeAll(n int) {
	for p := range ledgerPartitions {
		l.write(p, n)
	}
}

func (l *ledger) every(d time.Duration, f func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			f()
		}
	}
}

// committedNow are the committed offsets, nil while nobody answers, as while brokers are down. A coordinator that has just taken over may answer
// with older ones for a moment.
func (l *ledger) committedNow() map[task.TopicPartition]int64 {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	now, err := l.client.Committed(ctx, l.app)
	if err != nil {
		return nil
	}
	out := map[task.TopicPartition]int64{}
	for tp, o := range now {
		if l.reads(tp.Topic) {
			out[tp] = o.Offset
		}
	}
	return out
}

// reads says that the application reads a topic as an input. It commits offsets of changelogs too: those are rows of the readiness board.
func (l *ledger) reads(topic string) bool {
	return topic == l.in || topic == l.app+"-counts-repartition"
}

// checkCommits reads every commit of the application from the log of commits: none goes back.
func (l *ledger) checkCommits() {
	l.t.Helper()
	last := map[task.TopicPartition]int64{}
	n := 0
	for _, r := range l.all("__consumer_offsets") {
		key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
		if r.Value == nil || key.ReadFrom(r.Key) != nil || key.Version > 1 || key.Group != l.app || !l.reads(key.Topic) {
			continue // of other groups, their members, or the readiness board
		}
		require.NoError(l.t, value.ReadFrom(r.Value))
		tp := task.TopicPartition{Topic: key.Topic, Partition: key.Partition}
		require.GreaterOrEqual(l.t, value.Offset, last[tp], "the committed offset of %s goes back", tp)
		last[tp] = value.Offset
		n++
	}
	require.Len(l.t, last, 2*ledgerPartitions)
	require.Greater(l.t, n, len(last), "more than one commit each")
}

func (l *ledger) end() {
	l.once.Do(func() { close(l.stop) })
	<-l.done
}

func (l *ledger) total() (n int64) {
	for p := range l.sent {
		n += l.sent[p].Load()
	}
	return n
}

// copied is how many records the topic of copies has.
func (l *ledger) copied() int64 { return l.length(l.copies) }

// length is how many records a topic has, -1 while nobody can tell.
func (l *ledger) length(topic string) (n int64) {
	ends := l.ends(topic)
	if ends == nil {
		return -1
	}
	for _, end := range ends {
		n += end
	}
	return n
}

// ends are the ends of a topic's partitions, nil while not all can be told.
func (l *ledger) ends(topic string) map[task.TopicPartition]int64 {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	listed, err := l.admin.ListEndOffsets(ctx, topic)
	if err != nil || listed.Error() != nil {
		return nil
	}
	out := map[task.TopicPartition]int64{}
	listed.Each(func(o kadm.ListedOffset) { out[task.TopicPartition{Topic: topic, Partition: o.Partition}] = o.Offset })
	return out
}

// outcome is what the application made of the ledger.
type outcome struct {
	again   int // copies beyond the first of each record
	counted int // counts beyond the truth, of all keys together
}

// check reads everything and checks it: each record has been copied, in the order of its key, and is counted; the counts in the output are
// those in the changelog.
func (l *ledger) check() (o outcome) {
	l.t.Helper()
	truth := map[string]int64{}
	for p := range l.sent {
		for seq := range l.sent[p].Load() {
			truth[fmt.Sprintf("of %d/%d", p, seq%ledgerKeys)]++
		}
	}
	o.again = l.checkCopies()
	counts, changelog := l.counts(l.outs), l.counts(l.app+"-counts-changelog")
	require.Equal(l.t, changelog, counts, "the output's last values are the state's")
	require.ElementsMatch(l.t, slices.Collect(maps.Keys(truth)), slices.Collect(maps.Keys(counts)))
	for key, n := range truth {
		require.GreaterOrEqual(l.t, counts[key], n, "records of key %q are not counted", key)
		o.counted += int(counts[key] - n)
	}
	l.checkCommits()
	return o
}

// checkCopies returns how many records have been copied more than once.
func (l *ledger) checkCopies() (again int) {
	l.t.Helper()
	var seen [ledgerPartitions]map[int64]bool
	for p := range seen {
		seen[p] = map[int64]bool{}
	}
	last := map[string]int64{} // by key, the newest record that was new
	for _, r := range l.all(l.copies) {
		f := strings.SplitN(string(r.Value), "-", 3)
		p, err1 := strconv.Atoi(f[0])
		seq, err2 := strconv.ParseInt(f[1], 10, 64)
		require.NoError(l.t, cmp.Or(err1, err2))
		require.Equal(l.t, fmt.Sprintf("%d/%d", p, seq%ledgerKeys), string(r.Key), "a record under another key")
		if seen[p][seq] {
			again++
			continue
		}
		seen[p][seq] = true
		before, ok := last[string(r.Key)]
		require.True(l.t, !ok && seq < ledgerKeys || seq == before+ledgerKeys, "key %s: record %d follows %d", r.Key, seq, before)
		last[string(r.Key)] = seq
	}
	for p := range seen {
		require.Equal(l.t, int(l.sent[p].Load()), len(seen[p]), "records of partition %d are lost", p)
	}
	return again
}

// countsGrow checks that no count of a key comes twice or goes back, as none does where nothing is processed again.
func (l *ledger) countsGrow() {
	l.t.Helper()
	last := map[string]uint64{}
	for _, r := range l.all(l.outs) {
		n := binary.BigEndian.Uint64(r.Value)
		require.Greater(l.t, n, last[string(r.Key)], "the count of %s", r.Key)
		last[string(r.Key)] = n
	}
}
