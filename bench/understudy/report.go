package main

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/streams"
)

// restores adds up what has been restored and says so, in the form that the harness reads, each time the application runs.
type restores struct {
	records    int64
	begin, end time.Time
}

// listener's functions are called on one goroutine.
func (r *restores) listener() streams.Listener {
	return streams.Listener{
		Restore: func(p streams.RestoreProgress) {
			if r.begin.IsZero() {
				r.begin = time.Now()
			}
			if p.Done {
				r.records += p.Records
				r.end = time.Now()
			}
		},
		State: func(s streams.State) {
			if s == streams.StateRunning {
				fmt.Printf("RUNNING at=%d restored=%d restore_ms=%d\n", time.Now().UnixMilli(), r.records, r.end.Sub(r.begin).Milliseconds())
			}
		},
	}
}
