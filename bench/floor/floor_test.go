package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
)

// pipe is a producer whose requests are read by the test.
func pipe(t *testing.T) (*producer, <-chan []byte) {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	requests := make(chan []byte, 1)
	go func() {
		for {
			var size [4]byte
			if _, err := io.ReadFull(far, size[:]); err != nil {
				return
			}
			b := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(far, b); err != nil {
				return
			}
			requests <- b
		}
	}()
	return &producer{conn: &conn{net: near}}, requests
}

// What is written is what is walked, and the batch that is not whole is left.
func TestRecordsComeBack(t *testing.T) {
	wire, requests := pipe(t)
	w := newTopicWriter(wire, "out", 1, 7, 3)
	var batches []byte
	for batch := range 2 {
		for i := range 3 {
			n := batch*3 + i
			if err := w.write(0, int64(1000-n), fmt.Appendf(nil, "key%d", n), fmt.Appendf(nil, "value %d", n), upper); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		request := <-requests
		sent := request[w.head-4:]
		if got := binary.BigEndian.Uint32(sent[batchSequence:]); got != uint32(3*batch) {
			t.Errorf("sequence %d", got)
		}
		binary.BigEndian.PutUint64(sent, uint64(10+3*batch)) // as a broker would
		batches = append(batches, sent...)
	}
	complete, next := whole(append(batches, batches[:80]...), 0)
	if len(complete) != len(batches) || next != 16 {
		t.Fatalf("%d bytes of %d, next %d", len(complete), len(batches), next)
	}
	n := 2 // those before are not wanted
	err := recordSet{from: 12, batches: complete}.each(func(r record) error {
		if string(r.key) != fmt.Sprint("key", n) || string(r.value) != fmt.Sprint("VALUE ", n) || r.timestamp != int64(1000-n) {
			t.Errorf("%d: %q %q %d", n, r.key, r.value, r.timestamp)
		}
		n++
		return nil
	})
	if err != nil || n != 6 {
		t.Errorf("%d records, %v", n, err)
	}
	complete[len(complete)-1] ^= 1
	if err := (recordSet{batches: complete}).each(func(record) error { return nil }); err == nil {
		t.Error("a broken batch is not noticed")
	}
}

func TestTableCounts(t *testing.T) {
	var counts table
	want := map[string]int64{}
	for round := range 3 {
		changed := map[string]bool{}
		for i := range 5000 {
			key := fmt.Appendf(nil, "k%d", i*(round+1)%4000)
			want[string(key)]++
			changed[string(key)] = true
			if err := counts.add(key, int64(i)); err != nil {
				t.Fatal(err)
			}
		}
		seen := 0
		err := counts.drain(func(key, value []byte, _ int64) error {
			seen++
			if got := int64(binary.BigEndian.Uint64(value)); got != want[string(key)] {
				t.Errorf("%s: %d, want %d", key, got, want[string(key)])
			}
			return nil
		})
		if err != nil || seen != len(changed) {
			t.Errorf("%d changes, want %d; %v", seen, len(changed), err)
		}
	}
	if err := counts.add(make([]byte, longestKey+1), 0); err == nil {
		t.Error("a key that has no room")
	}
}

// The values are those of Kafka's own test.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829, "abc": 479470107} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}
