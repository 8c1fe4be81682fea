package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// observer follows the output topic while programs write to it. Times are those at which the broker appended, so that it does not matter when
// the observer gets to see a record.
type observer struct {
	ring *keyring

	mu       sync.Mutex
	lines    []timeline // by partition
	read     []int64    // the next offset, by partition
	counts   []int32    // the last count of each key
	known    int        // keys with a count
	repeated int64      // outputs whose count was not above the key's last one
	records  int64
	wrong    mistakes
	stray    int64 // outputs outside of the partition of their key
	failed   error
}

func newObserver(ring *keyring) *observer {
	partitions := len(ring.of)
	return &observer{ring: ring, lines: make([]timeline, partitions), read: make([]int64, partitions), counts: make([]int32, len(ring.home))}
}

// follow reads the topic from its beginning until the context ends.
func (o *observer) follow(ctx context.Context, c *cluster, topic string) (wait func(), err error) {
	reader, err := c.open(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer reader.Close()
		for ctx.Err() == nil {
			fetches := reader.PollFetches(ctx)
			o.mu.Lock()
			for _, e := range fetches.Errors() {
				if ctx.Err() == nil && o.failed == nil && !kerr.IsRetriable(e.Err) {
					o.failed = fmt.Errorf("read %s: %w", topic, e.Err)
				}
			}
			fetches.EachRecord(o.take)
			o.mu.Unlock()
		}
	}()
	return func() { <-ended }, nil
}

// take is told each output, in the order of its partition.
func (o *observer) take(r *kgo.Record) {
	o.records++
	o.read[r.Partition] = r.Offset + 1
	n, known := keyNumber(r.Key)
	if !known || n >= len(o.counts) {
		o.wrong.unknown++
		return
	}
	if len(r.Value) != 9 {
		o.wrong.malformed++
		return
	}
	if o.ring.home[n] != r.Partition {
		o.stray++
	}
	count64, _ := countIn(r.Value[:8])
	count := int32(count64)
	switch {
	case o.counts[n] == 0:
		o.known++
	case count <= o.counts[n]:
		o.repeated++
	}
	o.counts[n] = count
	o.lines[r.Partition] = o.lines[r.Partition].add(sighting{r.Timestamp.UnixMilli(), r.Value[8]})
}

// owners says who put out last in each partition, and since when each partition has been silent.
func (o *observer) owners() (by []byte, last []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.lines {
		s := sighting{}
		if len(t) > 0 {
			s = t[len(t)-1]
		}
		by, last = append(by, s.by), append(last, s.at)
	}
	return by, last
}

// seen is how many keys have been put out.
func (o *observer) seen() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known, o.failed
}

// missing is the number of keys whose last count is below what is wanted.
func (o *observer) missing(wanted []int32) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for i, want := range wanted {
		if o.counts[i] < want {
			n++
		}
	}
	return n, o.failed
}

// at says whether everything before these ends has been read.
func (o *observer) at(ends []int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p, end := range ends {
		if o.read[p] < end {
			return false
		}
	}
	return true
}

// tallied is what the counts come to at the end.
type tallied struct {
	low      int   // keys with too low a count
	high     int   // and too high
	excess   int64 // records that were counted more than once
	repeated int64
	wrong    string // what no program may do, whatever happened to it; "" is right
}

// verdict compares the last count of each key with the truth. It is called when nobody writes any more.
func (o *observer) verdict(wanted []int32) tallied {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := tallied{repeated: o.repeated}
	wrong := o.wrong
	for n, want := range wanted {
		wrong.compare(int64(want), int64(o.counts[n]))
		if over := int64(o.counts[n]) - int64(want); over > 0 {
			v.excess += over
		}
	}
	v.low, v.high = wrong.low, wrong.high
	if v.low+wrong.unknown+wrong.malformed > 0 {
		v.wrong = wrong.String()
	}
	if o.stray > 0 {
		v.wrong += fmt.Sprintf("%d outputs are in a partition that is not their key's", o.stray)
	}
	return v
}

// judge says what is wrong with a run in which at most so many records may have been counted twice.
func (v tallied) judge(mayRepeat int64) string {
	switch {
	case v.wrong != "":
		return v.wrong
	case v.excess > mayRepeat:
		return fmt.Sprintf("%d records are counted more than once, in %d keys; at most %d may be", v.excess, v.high, mayRepeat)
	}
	return ""
}
