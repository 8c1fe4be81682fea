package work

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Sleeper makes the calls of records that sleep, any number at a time, and notes how long all of them took together.
type Sleeper struct {
	records     int
	first, last atomic.Int64 // nanoseconds since the epoch
	done        atomic.Int64
	slept       []atomic.Int64 // by Seq: nanoseconds
	keys        sync.Map       // of a key: *lane
	repeated    atomic.Int64   // calls for a record that was there before
	disordered  atomic.Int64   // calls that overtook an earlier record of their key, or ran beside it
	Done        chan struct{}  // closed when all records have been there
}

// lane is a key.
type lane struct{ running, seq atomic.Int64 }

// NewSleeper expects so many records, numbered from 0.
func NewSleeper(records int) *Sleeper {
	return &Sleeper{records: records, slept: make([]atomic.Int64, records), Done: make(chan struct{})}
}

// Call sleeps as the value says.
func (s *Sleeper) Call(key string, value []byte) error {
	s.first.CompareAndSwap(0, time.Now().UnixNano())
	v, err := Parse(value)
	if err != nil || v.Kind != Sleep || v.Seq >= s.records {
		return fmt.Errorf("a record that is not to sleep: %.40q", value)
	}
	var l *lane
	if at, ok := s.keys.Load(key); ok {
		l = at.(*lane)
	} else {
		at, _ := s.keys.LoadOrStore(key, new(lane))
		l = at.(*lane)
	}
	if l.running.Add(1) > 1 || l.seq.Swap(int64(v.Seq)+1) > int64(v.Seq) {
		s.disordered.Add(1)
	}
	d := time.Duration(v.Number) * time.Microsecond
	time.Sleep(d)
	l.running.Add(-1)
	if s.slept[v.Seq].Swap(max(1, int64(d))) != 0 {
		s.repeated.Add(1)
		return nil
	}
	if s.done.Add(1) == int64(s.records) {
		s.last.Store(time.Now().UnixNano())
		close(s.Done)
	}
	return nil
}

// Report makes the same sleeps on so many goroutines, without Kafka, and prints the line that the harness reads. All records have been there.
func (s *Sleeper) Report(goroutines int) {
	ideal := s.ideal(goroutines)
	fmt.Printf("SLEPT records=%d took_us=%d ideal_us=%d repeated=%d disordered=%d\n",
		s.records, (s.last.Load()-s.first.Load())/1e3, ideal.Microseconds(), s.repeated.Load(), s.disordered.Load())
}

func (s *Sleeper) ideal(goroutines int) time.Duration {
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(s.records); i = next.Add(1) - 1 {
				time.Sleep(time.Duration(s.slept[i].Load()))
			}
		})
	}
	all.Wait()
	return time.Since(began)
}
