package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keyring is the keys of a rebalance run by the partition that Kafka's partitioner has for them. Input and output have equally many
// partitions, so that an output tells by its own partition which input partition it comes from.
type keyring struct {
	home []int32 // by number of the key
	of   [][]int // keys, by partition
}

func newKeyring(keys int, partitions int32) *keyring {
	ring := &keyring{home: make([]int32, keys), of: make([][]int, partitions)}
	hash := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for n := range keys {
		p := hash.Partition(&kgo.Record{Key: key(n)}, int(partitions))
		ring.home[n] = int32(p)
		ring.of[p] = append(ring.of[p], n)
	}
	return ring
}

// load produces records and knows how often each key was sent.
type load struct {
	ring    *keyring
	writer  *writer
	random  *rand.Rand
	letters []byte
	next    int // the partition that is due

	mu    sync.Mutex
	sent  []int32    // records, by key
	lines []timeline // by partition, when the broker confirmed records: the load itself may stand still
}

// newLoad writes to the topic; each record goes where its key belongs.
func (c *cluster) newLoad(topic string, ring *keyring) (*load, error) {
	client, err := c.open(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	l := &load{ring: ring, random: seeded(), writer: &writer{topic, client, make(chan error, 1)}, sent: make([]int32, len(ring.home)), lines: make([]timeline, len(ring.of))}
	l.letters = randomLetters(l.random, 1<<16)
	return l, err
}

func (l *load) send(ctx context.Context, n int) {
	at := l.random.IntN(len(l.letters) - valueBytes)
	l.mu.Lock()
	l.sent[n]++
	l.mu.Unlock()
	l.writer.produce(ctx, &kgo.Record{Topic: l.writer.topic, Partition: l.ring.home[n], Key: key(n), Value: l.letters[at : at+valueBytes]}, l.confirmed)
}

// confirmed notes when a record was confirmed.
func (l *load) confirmed(r *kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[r.Partition] = l.lines[r.Partition].add(sighting{at: time.Now().UnixMilli()})
}

// longest is the longest silence of the load in any partition.
func (l *load) longest(w window) gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return longestOf(l.lines, w)
}

// every sends each key once.
func (l *load) every(ctx context.Context) error {
	for n := range l.ring.home {
		l.send(ctx, n)
	}
	return l.flushed(ctx)
}

// tick is how often the steady load is topped up.
const tick = 5 * time.Millisecond

// steady sends so many records a second until stop is closed, to one partition after the other, with keys drawn evenly.
func (l *load) steady(ctx context.Context, perSecond int, stop <-chan struct{}) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for began, sent := time.Now(), 0; ; {
		select {
		case <-stop:
			return l.flushed(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
		for ; sent < int(time.Since(began).Seconds()*float64(perSecond)); sent++ {
			keys := l.ring.of[l.next]
			l.send(ctx, keys[l.random.IntN(len(keys))])
			l.next = (l.next + 1) % len(l.ring.of)
		}
	}
}

func (l *load) flushed(ctx context.Context) error {
	if err := l.writer.client.Flush(ctx); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return l.writer.trouble()
}

// wanted is how often each key has been sent so far.
func (l *load) wanted() []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int32(nil), l.sent...)
}
