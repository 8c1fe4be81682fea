package streams_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

var errFlaky = errors.New("the dependency is down")

// flaky is something that records need and that fails for some of them.
type flaky struct {
	mu    sync.Mutex
	left  map[string]int // by value: how often it still fails; a negative number is for ever
	tries map[string][]time.Time
}

func newFlaky(fails map[string]int) *flaky {
	return &flaky{left: fails, tries: map[string][]time.Time{}}
}

// call is what records do with it.
func (f *flaky) call(value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries[value] = append(f.tries[value], time.Now())
	if f.left[value] == 0 {
		return nil
	}
	f.left[value]--
	return fmt.Errorf("%w for %q", errFlaky, value)
}

// mend lets everything succeed from now on.
func (f *flaky) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.left)
}

// tried says how often a value was tried.
func (f *flaky) tried(value string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tries[value])
}

// through passes strings on that have come through the dependency.
func through(f *flaky, p retry.Policy, in, out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.String, streams.OnFailure(p)).
		TryMapValues("call", func(_ ctxType, r streams.Record[string, string]) (string, error) { return r.Value, f.call(r.Value) }).
		To(out)
	return b
}

// keyed puts values whose key is what stands before their first digit.
func (b *bed) keyed(topic string, partition int32, values ...string) {
	b.t.Helper()
	var rs []task.OutRecord
	for _, v := range values {
		rs = append(rs, task.OutRecord{Key: []byte(keyOf(v)), Value: []byte(v), Timestamp: time.Now().UnixMilli()})
	}
	b.put(topic, partition, rs...)
}

func keyOf(value string) string { return strings.TrimRight(value, "0123456789") }

func numberOf(value string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(value, keyOf(value))) // values are made by the tests
	return n
}

// texts are the values of a topic.
func (b *bed) texts(topic string) (out []string) {
	b.t.Helper()
	for _, r := range b.all(topic) {
		out = append(out, string(r.Value))
	}
	return out
}

// letters are the dead letters of a topic, by value.
func (b *bed) letters(topic string) map[string]letter {
	b.t.Helper()
	out := map[string]letter{}
	for _, r := range b.all(topic) {
		says, original, ok := retry.ParseLetter(retryHeaders(r.Headers))
		require.True(b.t, ok, "the headers of %q: %v", r.Value, r.Headers)
		out[string(r.Value)] = letter{Record: r, says: says, original: original, copies: out[string(r.Value)].copies + 1}
	}
	return out
}

type letter struct {
	task.Record
	says     retry.Letter
	original []retry.Header
	copies   int
}

func retryHeaders(headers []task.Header) (out []retry.Header) {
	for _, h := range headers {
		out = append(out, retry.Header(h))
	}
	return out
}

// parked are the values that lie in a retry topic: what is left of it when it is compacted.
func (b *bed) parked(topic string) map[string]retry.Entry {
	b.t.Helper()
	return b.foldParked(topic, false)
}

// tolerantlyParked is parked for a topic that is being written to.
func (b *bed) tolerantlyParked(topic string) map[string]retry.Entry {
	b.t.Helper()
	return b.foldParked(topic, true)
}

func (b *bed) foldParked(topic string, halves bool) map[string]retry.Entry {
	b.t.Helper()
	rows := map[string][]byte{}
	for _, r := range b.all(topic) {
		if rows[string(r.Key)] = r.Value; r.Value == nil {
			delete(rows, string(r.Key))
		}
	}
	out := map[string]retry.Entry{}
	for key, row := range rows {
		o, payload, err := retry.ParseKey([]byte(key))
		require.NoError(b.t, err)
		body := rows[string(retry.AppendPayloadKey(nil, o))]
		if payload || halves && body == nil {
			continue // half of it is written, or deleted
		}
		e, err := retry.DecodeEntry(o, row)
		require.NoError(b.t, err)
		p, err := retry.DecodePayload(o, body)
		require.NoError(b.t, err)
		out[string(p.Value)] = e
	}
	return out
}

// quick is a policy's waits for tests.
func quick(more ...retry.Option) []retry.Option {
	return append([]retry.Option{retry.Backoff(50*time.Millisecond, 200*time.Millisecond)}, more...)
}

// offset is the committed offset of a partition.
func (b *bed) offset(app, topic string, partition int32) int64 {
	b.t.Helper()
	return b.committed(b.name(app))[task.TopicPartition{Topic: topic, Partition: partition}]
}
