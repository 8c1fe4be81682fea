package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verify compares the output topic with what the input demands. It returns the number of output records, and what is wrong, or "".
func (c *cluster) verify(ctx context.Context, w workload) (records int64, why string, err error) {
	if w.name == "map" {
		return c.verifyMap(ctx, w)
	}
	return c.verifyCounts(ctx, w)
}

// verifyMap compares the multisets of pairs, by the sum of their hashes.
func (c *cluster) verifyMap(ctx context.Context, w workload) (records int64, why string, err error) {
	seed := maphash.MakeSeed()
	pair := func(k, v []byte) uint64 { return maphash.Bytes(seed, k)*31 + maphash.Bytes(seed, v) }
	var want, got uint64
	for k, v := range w.input() {
		want += pair(k, bytes.ToUpper(v))
	}
	err = c.read(ctx, "out", func(r *kgo.Record) { got += pair(r.Key, r.Value); records++ })
	switch {
	case records != int64(w.records):
		why = fmt.Sprintf("%d records in the output, want %d", records, w.records)
	case got != want:
		why = "the output has the right number of records, but not the right ones"
	}
	return records, why, err
}

// verifyCounts compares the last count of each key with the true one.
func (c *cluster) verifyCounts(ctx context.Context, w workload) (records int64, why string, err error) {
	want, got := trueCounts(w), map[string]int64{}
	malformed := 0
	err = c.read(ctx, "out", func(r *kgo.Record) {
		records++
		if len(r.Value) != 8 {
			malformed++
			return
		}
		got[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
	})
	return records, compareCounts(want, got, malformed), err
}

func trueCounts(w workload) map[string]int64 {
	counts := map[string]int64{}
	for k, v := range w.input() {
		if w.name == "count" {
			counts[string(k)]++
			continue
		}
		for word := range bytes.SplitSeq(v, []byte(" ")) {
			counts[string(word)]++
		}
	}
	return counts
}

func compareCounts(want, got map[string]int64, malformed int) string {
	high, low, unknown := 0, 0, 0
	for key, n := range want {
		switch {
		case got[key] > n:
			high++
		case got[key] < n:
			low++
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			unknown++
		}
	}
	if high+low+unknown+malformed == 0 {
		return ""
	}
	return fmt.Sprintf("of %d keys %d are too high, %d too low or missing; %d unknown keys, %d values that are not 8 bytes", len(want), high, low, unknown, malformed)
}

// read hands every committed record of the topic to f, partition by partition in the order of offsets.
func (c *cluster) read(ctx context.Context, topic string, f func(*kgo.Record)) error {
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
