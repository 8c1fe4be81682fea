package pebblestore

import (
	"fmt"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// openPatience is for how long an open may fail in the background, in units of RetryDelay. Pebble would try for ever, and Open not return.
const openPatience = 10

// openPebble opens the database, or returns why it cannot be: also where Pebble panics, over a directory that cannot be synced or damage that it
// did not expect, and where it waits without an end for a flush of its own that goes on failing.
func (d *DB) openPebble(p *pebble.Options) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() { done <- r }()
		defer func() {
			if v := recover(); v != nil {
				r.err = panicked(v)
			}
		}()
		r.db, r.err = pebble.Open(d.opts.Dir, p)
	}()
	var early error
	var enough <-chan time.Time
	for {
		select {
		case r := <-done:
			return r.db, r.err
		case early = <-d.health.early:
			if enough == nil {
				t := time.NewTimer(openPatience * d.opts.RetryDelay)
				defer t.Stop()
				enough = t.C
			}
			continue
		case <-enough:
			d.health.breakDown(fmt.Errorf("it does not open: %w", early))
		case <-d.health.stop:
		}
		break
	}
	d.left = true
	go func() { // it may come to an end all the same
		if r := <-done; r.db != nil {
			_ = r.db.Close()
		}
	}()
	return nil, d.health.err()
}

// inOpen reports whether the caller was called by pebble.Open, and not on a goroutine of Pebble's.
func inOpen() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if f.Function == pebbleOpen {
			return true
		}
		if !more {
			return false
		}
	}
}

const pebbleOpen = "github.com/cockroachdb/pebble/v2.Open"
