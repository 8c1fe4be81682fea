package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verify compares the output topic with what the input demands. It returns the number of output records, and what is wrong, or "".
func (c *cluster) verify(ctx context.Context, w workload, in input) (records int64, why string, err error) {
	switch {
	case w.does == "map":
		return c.verifyMap(ctx, in)
	case in.kind == "lines":
		return c.verifyWords(ctx, in)
	default:
		return c.verifyCounts(ctx, in)
	}
}

// sums are those of the hashes of what has to be in the output of map, by input; each is worked out once.
type sums struct {
	seed maphash.Seed
	of   map[input]uint64
}

func (s *sums) pair(k, v []byte) uint64 {
	return maphash.Bytes(s.seed, k)*31 + maphash.Bytes(s.seed, v)
}

func (s *sums) want(in input) uint64 {
	if sum, ok := s.of[in]; ok {
		return sum
	}
	var sum uint64
	var upper []byte
	for k, v := range in.all() {
		upper = append(upper[:0], v...)
		for i, c := range upper {
			if 'a' <= c && c <= 'z' {
				upper[i] = c - ('a' - 'A')
			}
		}
		sum += s.pair(k, upper)
	}
	s.of[in] = sum
	return sum
}

// verifyMap compares the multisets of pairs, by the sum of their hashes.
func (c *cluster) verifyMap(ctx context.Context, in input) (records int64, why string, err error) {
	var got uint64
	want := c.sums.want(in)
	err = c.read(ctx, "out", func(r *kgo.Record) { got += c.sums.pair(r.Key, r.Value); records++ })
	switch {
	case records != int64(in.records):
		why = fmt.Sprintf("%d records in the output, want %d", records, in.records)
	case got != want:
		why = "the output has the right number of records, but not the right ones"
	}
	return records, why, err
}

// countIn is the count in an output record.
func countIn(value []byte) (int64, bool) {
	if len(value) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(value)), true
}

// verifyCounts compares the last count of each key with the true one. Keys are numbers: ten million of them in a map would take long.
func (c *cluster) verifyCounts(ctx context.Context, in input) (records int64, why string, err error) {
	want, got := make([]int64, in.keys), make([]int64, in.keys)
	for k := range in.all() {
		n, _ := keyNumber(k)
		want[n]++
	}
	var wrong mistakes
	err = c.read(ctx, "out", func(r *kgo.Record) {
		records++
		n, known := keyNumber(r.Key)
		count, ok := countIn(r.Value)
		switch {
		case !known || n >= len(got):
			wrong.unknown++
		case !ok:
			wrong.malformed++
		default:
			got[n] = count
		}
	})
	for n := range want {
		wrong.compare(want[n], got[n])
	}
	return records, wrong.String(), err
}

// verifyWords is the same by word.
func (c *cluster) verifyWords(ctx context.Context, in input) (records int64, why string, err error) {
	want, got := map[string]int64{}, map[string]int64{}
	for _, line := range in.all() {
		for word := range bytes.SplitSeq(line, []byte(" ")) {
			want[string(word)]++
		}
	}
	var wrong mistakes
	err = c.read(ctx, "out", func(r *kgo.Record) {
		records++
		count, ok := countIn(r.Value)
		switch _, known := want[string(r.Key)]; {
		case !known:
			wrong.unknown++
		case !ok:
			wrong.malformed++
		default:
			got[string(r.Key)] = count
		}
	})
	for word, n := range want {
		wrong.compare(n, got[word])
	}
	return records, wrong.String(), err
}

// mistakes counts what is wrong with counts.
type mistakes struct{ keys, high, low, unknown, malformed int }

func (m *mistakes) compare(want, got int64) {
	m.keys++
	switch {
	case got > want:
		m.high++
	case got < want:
		m.low++
	}
}

// String is "" where nothing is wrong.
func (m *mistakes) String() string {
	if m.high+m.low+m.unknown+m.malformed == 0 {
		return ""
	}
	return fmt.Sprintf("of %d keys %d are too high, %d too low or missing; %d records have unknown keys, %d values that are not 8 bytes", m.keys, m.high, m.low, m.unknown, m.malformed)
}

// reading is how long it may take to read a topic.
const reading = 3 * time.Minute

// read hands every committed record of the topic to f, partition by partition in the order of offsets.
func (c *cluster) read(ctx context.Context, topic string, f func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reading, fmt.Errorf("not read to its end within %s", reading)) // a transaction that hangs has no end
	defer cancel()
	ends, _, err := c.ends(ctx, topic)
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	for p, end := range ends[topic] {
		if end.Offset > 0 {
			left[p] = end.Offset
		}
	}
	reader, err := c.open(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(8<<20))
	if err != nil {
		return err
	}
	defer reader.Close()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("read %s: %w", topic, context.Cause(ctx))
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				f(r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}
