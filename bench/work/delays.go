package work

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Delays notes when records that are to come later are due, and when they come.
type Delays struct {
	due         []atomic.Int64 // by Seq: nanoseconds since the epoch; 0 before the first call
	late        []atomic.Int64 // nanoseconds, odd; 0 before the second call
	aside, back atomic.Int64
	repeated    atomic.Int64 // calls after the second
}

// NewDelays expects so many records, numbered from 0.
func NewDelays(records int) *Delays {
	return &Delays{due: make([]atomic.Int64, records), late: make([]atomic.Int64, records)}
}

// Call says after which time the record is to come again; 0 when it has.
func (d *Delays) Call(v Value) (time.Duration, error) {
	if v.Seq >= len(d.due) {
		return 0, fmt.Errorf("record %d of %d", v.Seq, len(d.due))
	}
	now := time.Now().UnixNano()
	delay := time.Duration(v.Number) * time.Millisecond
	if d.due[v.Seq].CompareAndSwap(0, now+int64(delay)) {
		if d.aside.Add(1) == int64(len(d.due)) {
			fmt.Printf("ASIDE records=%d at=%d\n", len(d.due), now/1e6)
		}
		return delay, nil
	}
	if !d.late[v.Seq].CompareAndSwap(0, (now-d.due[v.Seq].Load())|1) {
		d.repeated.Add(1)
		return 0, nil
	}
	if d.back.Add(1) == int64(len(d.due)) {
		d.report()
	}
	return 0, nil
}

// report prints the line that the harness reads. Early is more than a millisecond before the record was due: that is the unit of due times.
func (d *Delays) report() {
	late := make([]int64, len(d.late))
	early := 0
	for i := range d.late {
		late[i] = d.late[i].Load() / 1e3
		if late[i] < -1000 {
			early++
		}
	}
	slices.Sort(late)
	at := func(q float64) int64 { return late[min(len(late)-1, int(q*float64(len(late))))] }
	fmt.Printf("DUE records=%d first_us=%d p50_us=%d p99_us=%d last_us=%d early=%d repeated=%d\n", len(late), late[0], at(.5), at(.99), late[len(late)-1], early, d.repeated.Load())
}
