package main

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// put is an output record of the tally.
func put(ring *keyring, n int, count uint64, by byte, ms, offset int64) *kgo.Record {
	return &kgo.Record{
		Key: key(n), Value: append(binary.BigEndian.AppendUint64(nil, count), by), Partition: ring.home[n], Offset: offset, Timestamp: time.UnixMilli(ms),
	}
}

func TestKeyringSpreadsKeysAsKafkaDoes(t *testing.T) {
	ring := newKeyring(10_000, 8)
	total := 0
	for p, keys := range ring.of {
		total += len(keys)
		if len(keys) < 1000 || len(keys) > 1500 {
			t.Errorf("partition %d has %d keys", p, len(keys))
		}
		for _, n := range keys {
			if ring.home[n] != int32(p) {
				t.Fatalf("key %d is at home in %d and %d", n, p, ring.home[n])
			}
		}
	}
	if total != 10_000 {
		t.Errorf("%d keys", total)
	}
	// What org.apache.kafka.common.utils.Utils.murmur2 makes of such keys, modulo 8.
	for n, want := range map[int]int32{0: 0, 1: 7, 2: 4, 77: 3, 9999: 1} {
		if ring.home[n] != want {
			t.Errorf("key %s is in partition %d, want %d", key(n), ring.home[n], want)
		}
	}
}

func TestObserverChecksCounts(t *testing.T) {
	ring := newKeyring(3, 1)
	want := []int32{2, 1, 1}
	for _, c := range []struct {
		name      string
		puts      []*kgo.Record
		mayRepeat int64
		why       string
		repeated  int64
	}{
		{"right", []*kgo.Record{put(ring, 0, 1, 'a', 1, 0), put(ring, 0, 2, 'a', 2, 1), put(ring, 1, 1, 'a', 3, 2), put(ring, 2, 1, 'b', 4, 3)}, 0, "", 0},
		{"some updates are left out", []*kgo.Record{put(ring, 0, 2, 'a', 2, 1), put(ring, 1, 1, 'a', 3, 2), put(ring, 2, 1, 'b', 4, 3)}, 0, "", 0},
		{"one is missing", []*kgo.Record{put(ring, 0, 2, 'a', 2, 1), put(ring, 1, 1, 'a', 3, 2)}, 9, "1 too low or missing", 0},
		{"one is too high", []*kgo.Record{put(ring, 0, 4, 'a', 2, 1), put(ring, 1, 1, 'a', 3, 2), put(ring, 2, 1, 'b', 4, 3)}, 1, "2 records are counted more than once, in 1 keys", 0},
		{"which may be", []*kgo.Record{put(ring, 0, 4, 'a', 2, 1), put(ring, 1, 1, 'a', 3, 2), put(ring, 2, 1, 'b', 4, 3)}, 2, "", 0},
		{"said twice", []*kgo.Record{put(ring, 0, 2, 'a', 2, 1), put(ring, 0, 2, 'b', 3, 2), put(ring, 1, 1, 'a', 3, 3), put(ring, 2, 1, 'b', 4, 4)}, 0, "", 1},
		{"a later count that is too low", []*kgo.Record{put(ring, 0, 2, 'a', 2, 1), put(ring, 0, 1, 'b', 3, 2), put(ring, 1, 1, 'a', 3, 3), put(ring, 2, 1, 'b', 4, 4)}, 0, "1 too low or missing", 1},
		{"a key that nobody sent", []*kgo.Record{{Key: []byte("k0000003"), Value: make([]byte, 9)}}, 0, "1 records have unknown keys", 0},
		{"a value that is none", []*kgo.Record{{Key: key(0), Value: make([]byte, 8)}}, 0, "1 values that", 0},
	} {
		o := newObserver(ring)
		for _, r := range c.puts {
			o.take(r)
		}
		v := o.verdict(want)
		if why := v.judge(c.mayRepeat); (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", c.name, why, c.why)
		}
		if v.repeated != c.repeated {
			t.Errorf("%s: %d repeated, want %d", c.name, v.repeated, c.repeated)
		}
	}
}

func TestObserverSeesOutputsInTheWrongPartition(t *testing.T) {
	ring := newKeyring(100, 4)
	o := newObserver(ring)
	r := put(ring, 7, 1, 'a', 5, 0)
	r.Partition = (r.Partition + 1) % 4
	o.take(r)
	if v := o.verdict(make([]int32, 100)); !strings.Contains(v.judge(1000), "not their key's") {
		t.Errorf("%+v", v)
	}
}

func TestObserverKnowsWhereItIs(t *testing.T) {
	ring := newKeyring(2, 1)
	o := newObserver(ring)
	o.take(put(ring, 0, 1, 'a', 5, 0))
	o.take(put(ring, 1, 1, 'b', 9, 1))
	if by, last := o.owners(); by[0] != 'b' || last[0] != 9 {
		t.Errorf("%c at %d", by[0], last[0])
	}
	if n, err := o.seen(); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, _ := o.missing([]int32{1, 2}); n != 1 {
		t.Errorf("%d missing", n)
	}
	if !o.at([]int64{2}) || o.at([]int64{3}) {
		t.Error("it has read two records")
	}
}
