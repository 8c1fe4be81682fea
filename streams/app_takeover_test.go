package streams_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// takeover is the topology of testdata/takeover/Takeover.java, step by step.
func takeover(prefix string) *streams.Builder {
	b := streams.NewBuilder()
	lines := b.Stream(prefix+"lines", serde.String, serde.String)
	counts := lines.FlatMapValues(bookWords).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts")
	counts.ToStream().To(prefix + "counts")
	counts.Filter(func(_ string, n int64) bool { return n%2 == 0 }).ToStream().To(prefix + "even")

	numbers := streams.NewStore("line-numbers", serde.String, serde.Int64)
	lines.Process("numbers", func(init *streams.Init) streams.Processor[string, string, string, int64] {
		rows, partition := numbers.Open(init), init.Task().Partition
		return streams.ProcessorFunc[string, string, string, int64](func(c *streams.Context[string, int64], r streams.Record[string, string]) error {
			n, _ := rows.Get("lines")
			rows.Put("lines", n+1)
			c.Forward(streams.Record[string, int64]{Key: fmt.Sprintf("partition %d", partition), Value: n + 1})
			return nil
		})
	}, streams.WithStores(numbers)).To(prefix + "numbers")

	b.Table(prefix+"stock", serde.String, serde.Int64, streams.As("stock-rows")).
		Filter(func(_ string, n int64) bool { return n >= 10 }).
		MapValues(func(n int64) int64 { return 2 * n }).
		ToStream().
		To(prefix + "plenty")
	return b
}

func bookWords(line string) []string {
	return strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) })
}

// book is what is put into the input topics in three parts, and the truth about what has been put so far: a plain loop's.
type book struct {
	*bed
	lines []string
	began time.Time
	times [bookPartitions]int64 // of the newest line of each partition

	words, numbers, stock map[string]int64
	newest                map[string]int64 // timestamp of the newest line of each word
	stockTimes            map[string]int64 // of the last record of each item that is there
	orders                int64
}

const bookPartitions = 3

func newBook(b *bed) *book {
	text, err := os.ReadFile(filepath.Join("..", "examples", "wordcount", "opticks.txt"))
	require.NoError(b.t, err)
	for _, topic := range []string{"lines", "counts", "even", "numbers", "stock", "plenty"} {
		b.topic(topic, bookPartitions)
	}
	return &book{
		bed: b, lines: slices.Collect(strings.Lines(string(text))), began: time.Now().Add(-time.Hour).Truncate(time.Second),
		words: map[string]int64{}, numbers: map[string]int64{}, newest: map[string]int64{}, stock: map[string]int64{}, stockTimes: map[string]int64{},
	}
}

// put writes a third of the book's lines. Each third begins with a hundred lines that are older than anything before.
func (k *book) put(third int) {
	k.t.Helper()
	size := (len(k.lines) + 2) / 3
	from, to := third*size, min((third+1)*size, len(k.lines))
	records := make([][]task.OutRecord, bookPartitions)
	for i := from; i < to; i++ {
		at := k.began.UnixMilli() + int64(i)
		if i < from+100 {
			at -= int64(third+1) * time.Hour.Milliseconds()
		}
		p := i % bookPartitions
		records[p] = append(records[p], task.OutRecord{Value: []byte(k.lines[i]), Timestamp: at})
		k.numbers[fmt.Sprintf("partition %d", p)]++
		k.times[p] = max(k.times[p], at)
		for _, w := range bookWords(k.lines[i]) {
			k.words[w]++
			k.newest[w] = max(k.newest[w], at)
		}
	}
	for p, rs := range records {
		k.bed.put(k.name("lines"), int32(p), rs...)
	}
}

// gone deletes a row of the stock.
const gone = -1

// order writes the stock of items, to the partition that their keys belong to.
func (k *book) order(stock map[string]int64) {
	k.t.Helper()
	for _, item := range slices.Sorted(maps.Keys(stock)) {
		k.orders++
		n, at := stock[item], k.began.UnixMilli()+k.orders
		r := task.OutRecord{Key: []byte(item), Timestamp: at}
		if n == gone {
			delete(k.stock, item)
			delete(k.stockTimes, item)
		} else {
			k.stock[item], k.stockTimes[item] = n, at
			r.Value = binary.BigEndian.AppendUint64(nil, uint64(n))
		}
		k.bed.put(k.name("stock"), task.PartitionFor(r.Key, bookPartitions), r)
	}
}

// counted reports whether everything that was put has arrived in the outputs, once.
func (k *book) counted() bool {
	return maps.Equal(k.words, k.counts(k.name("counts"))) && maps.Equal(k.numbers, k.counts(k.name("numbers"))) &&
		maps.Equal(k.plenty(), k.counts(k.name("plenty")))
}

func (k *book) plenty() map[string]int64 {
	out := map[string]int64{}
	for item, n := range k.stock {
		if n >= 10 {
			out[item] = 2 * n
		}
	}
	return out
}

// agrees holds outputs and changelogs against the truth, after a clean end of whoever ran.
func (k *book) agrees(app string) {
	k.t.Helper()
	even := map[string]int64{}
	for w, n := range k.words {
		if n%2 == 0 {
			even[w] = n
		}
	}
	require.Equal(k.t, k.words, k.counts(k.name("counts")))
	require.Equal(k.t, even, k.counts(k.name("even")))
	require.Equal(k.t, k.numbers, k.counts(k.name("numbers")))
	require.Equal(k.t, k.plenty(), k.counts(k.name("plenty")))

	k.rows(app, "word-counts", k.words, k.newest)
	k.rows(app, "stock-rows", k.stock, k.stockTimes)
	numbers := int64(0)
	for _, r := range k.all(k.name(app) + "-line-numbers-changelog") {
		numbers = max(numbers, int64(binary.BigEndian.Uint64(r.Value)))
	}
	require.Equal(k.t, slices.Max(slices.Collect(maps.Values(k.numbers))), numbers)

	offsets, err := k.client.Committed(k.ctx(), k.name(app))
	require.NoError(k.t, err)
	require.Len(k.t, offsets, 3*bookPartitions, "lines, stock and the repartition topic")
	for tp, o := range offsets {
		require.Equal(k.t, k.end(tp), o.Offset, "a clean end leaves nothing of %v behind", tp)
		if tp.Topic == k.name("lines") {
			m, err := retry.ParseMetadata(o.Metadata, o.Offset, -1)
			require.NoError(k.t, err)
			at := m.StreamTime
			require.Equal(k.t, k.times[tp.Partition], at, "the stream time that is committed with %v", tp)
		}
	}
}

// rows holds the newest record of each key in a changelog against the rows that there should be, and their timestamps.
func (k *book) rows(app, store string, want, times map[string]int64) {
	k.t.Helper()
	parts, err := k.client.Consume(k.ctx(), k.name(app)+"-"+store+"-changelog")
	require.NoError(k.t, err)
	got, at := map[string]int64{}, map[string]int64{}
	for p, records := range parts {
		for _, r := range records {
			key := string(r.Key)
			require.Equal(k.t, task.PartitionFor(r.Key, bookPartitions), p, "the changelog partition of %s", key)
			if r.Value == nil {
				delete(got, key)
				delete(at, key)
				continue
			}
			got[key], at[key] = int64(binary.BigEndian.Uint64(r.Value)), r.Timestamp
		}
	}
	require.Equal(k.t, want, got)
	require.Equal(k.t, times, at, "timestamps in the changelog of %s", store)
}

// end is the end of a partition.
func (k *book) end(tp task.TopicPartition) int64 {
	k.t.Helper()
	ends, err := k.client.Ends(k.ctx(), tp.Topic)
	require.NoError(k.t, err)
	return ends[tp.Partition]
}

// javaApp is the Java program.
type javaApp struct {
	*process
	stdin io.Writer
}

// java starts the Java program. Settings are those of Kafka Streams, name=value.
func (b *bed) java(app, dir string, settings ...string) *javaApp {
	b.t.Helper()
	pom := filepath.Join("testdata", "takeover", "pom.xml")
	libs := realkafka.Jars(b.t, "streams-4.4.0", pom)
	args := append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", libs + "/*",
		filepath.Join("testdata", "takeover", "Takeover.java"), strings.Join(b.addrs, ","), b.name(app), dir, b.prefix,
	}, settings...)
	j := &javaApp{process: &process{t: b.t, cmd: exec.Command("java", args...), ended: make(chan struct{})}}
	j.stdin, _ = j.cmd.StdinPipe()
	j.begin()
	return j
}

// over reports whether the process has ended.
func (j *javaApp) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// stop ends it cleanly. Its member leaves the group at once, or stays in it until its session is over.
func (j *javaApp) stop(leave bool) {
	j.t.Helper()
	how := "stay\n"
	if leave {
		how = "leave"
	}
	_, err := io.WriteString(j.stdin, how)
	require.NoError(j.t, err, "it has ended")
	<-j.ended
	require.NoError(j.t, j.cmd.Wait())
	require.Equal(j.t, 1, j.said("closed"), "it did not end cleanly")
}

// turn is one that an application of ours had: what it restored, by store.
type turn struct {
	mu       sync.Mutex
	restored map[string]int64
}

// ours runs the application until it has counted everything. While a member of Java's is in the group, it is started again and again.
func (k *book) ours(app, dir string) *turn {
	k.t.Helper()
	turn := &turn{restored: map[string]int64{}}
	c := k.config(app)
	c.StateDir = dir
	c.Listener.Restore = func(p streams.RestoreProgress) {
		if p.Done {
			turn.mu.Lock()
			defer turn.mu.Unlock()
			turn.restored[strings.TrimSuffix(strings.TrimPrefix(p.Topic, k.name(app)+"-"), "-changelog")] += p.Records
		}
	}
	c.Listener.Wiped = func(id streams.TaskID, topic string, _ int32, reason string) {
		k.t.Errorf("task %v: %s was wiped: %s", id, topic, reason)
	}
	var r *running
	require.Eventually(k.t, func() bool {
		r = k.run(takeover(k.prefix), c)
		if err := r.readyOrOver(); err != nil {
			require.ErrorIs(k.t, err, kcode.InconsistentGroupProtocol)
			require.ErrorContains(k.t, err, "session.timeout.ms")
		}
		return !r.over
	}, 30*time.Second, 500*time.Millisecond, "the group stays with a member that is gone")
	r.until("the counts", k.counted)
	require.NoError(k.t, r.end())
	return turn
}

// refuses runs the application while a member of Java's is in the group, which lasts no longer than its session of 5 s: it ends, and says why.
func (k *book) refuses(app string) {
	k.t.Helper()
	err := k.run(takeover(k.prefix), k.config(app)).readyOrOver()
	require.ErrorIs(k.t, err, kcode.InconsistentGroupProtocol, "Java's member, which did not leave, is in the group until its session is over")
	require.ErrorContains(k.t, err, "session.timeout.ms")
}

// readyOrOver waits until the application is ready, or has ended, and returns what it has ended with.
func (r *running) readyOrOver() error {
	for !r.app.Ready() {
		select {
		case err := <-r.done:
			r.over = true
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// theirs runs the Java program until it has counted everything.
func (k *book) theirs(app, dir string, leave bool, settings ...string) {
	k.t.Helper()
	j := k.java(app, dir, settings...)
	require.Eventually(k.t, func() bool { return j.over() || k.counted() }, 2*time.Minute, 100*time.Millisecond, "not everything is counted, or twice")
	j.stop(leave)
}

func TestAppTakesOverFromKafkaStreamsAndGivesBack(t *testing.T) {
	t.Parallel()
	b := newBook(realBed(t))
	dir := t.TempDir() // the same for both: each keeps to its own files
	b.put(0)
	b.order(map[string]int64{"lenses": 20, "prisms": 30, "mirrors": 5, "candles": 12, "screens": 4})
	b.order(map[string]int64{"candles": gone})
	b.theirs("opticks", dir, false)
	b.refuses("opticks")
	b.agrees("opticks")

	b.put(1)
	b.order(map[string]int64{"lenses": gone, "prisms": 3, "mirrors": 40, "screens": gone})
	turn := b.ours("opticks", dir)
	require.GreaterOrEqual(t, turn.restored["word-counts"], int64(1000), "from Java's changelog")
	require.Positive(t, turn.restored["stock-rows"])
	require.Positive(t, turn.restored["line-numbers"])
	b.agrees("opticks")

	b.put(2)
	b.order(map[string]int64{"prisms": 50, "mirrors": gone, "candles": 11})
	b.theirs("opticks", dir, true, "group.protocol=streams") // it goes on from the files that it left, and the rest of the changelog
	b.agrees("opticks")
}

func TestAppGivesToKafkaStreamsAndTakesBack(t *testing.T) {
	t.Parallel()
	b := newBook(realBed(t))
	here, there := t.TempDir(), t.TempDir()
	b.put(0)
	b.order(map[string]int64{"lenses": 20, "prisms": 30, "mirrors": 5, "candles": 12})
	b.ours("opticks", here)
	b.agrees("opticks")
	whole := int64(len(b.all(b.name("opticks") + "-word-counts-changelog")))

	b.put(1)
	b.order(map[string]int64{"lenses": gone, "prisms": 3, "mirrors": 40})
	b.theirs("opticks", there, true, "processing.guarantee=exactly_once_v2") // markers lie in the changelogs then
	b.agrees("opticks")
	theirs := int64(len(b.all(b.name("opticks")+"-word-counts-changelog"))) - whole

	b.put(2)
	b.order(map[string]int64{"prisms": 50, "mirrors": gone, "candles": gone})
	turn := b.ours("opticks", here)
	require.Equal(t, theirs, turn.restored["word-counts"], "what Java has written, and no more: the rest is on disk")
	b.agrees("opticks")
}
