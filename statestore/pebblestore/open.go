package pebblestore

import (
	"fmt"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// openPatience is for how long an open may fail in the background, in units of RetryDelay. Pebble would try for ever, and Open not return.
const openPatience = 10

// opened is what comes of an open.
type opened struct {
	db  *pebble.DB
	err error
}

// openPebble opens the database, or returns why it cannot be: also where Pebble panics, over a directory that cannot be synced or damage that it
// did not expect, and where it waits without an end for a flush of its own that goes on failing.
func (d *DB) openPebble(p *pebble.Options) (*pebble.DB, error) {
	done := make(chan opened, 1)
	go func() {
		var r opened
		defer func() { done <- r }()
		defer func() {
			if v := recover(); v != nil {
				r.err = panicked(v)
			}
		}()
		r.db, r.err = pebble.Open(d.opts.Dir, p)
	}()
	r, ended := d.awaitOpen(done)
	if ended {
		return r.db, r.err
	}
	d.left = true
	go func() { // it may come to an end all the same
		if r := <-done; r.db != nil {
			_ = r.db.Close()
		}
	}()
	return nil, d.health.err()
}

// awaitOpen waits for an open as long as there is hope. What cannot be waited for is broken.
func (d *DB) awaitOpen(done <-chan opened) (r opened, ended bool) {
	var early error
	var enough <-chan time.Time
	broken := d.health.stop
	for {
		select {
		case r := <-done:
			return r, true
		case early = <-d.health.early:
		case <-broken: // if it was by the open itself, that returns
			broken = nil
		case <-enough:
			d.health.breakDown(fmt.Errorf("it does not open: %w", early))
			return opened{}, false
		}
		if enough == nil {
			t := time.NewTimer(openPatience * d.opts.RetryDelay)
			defer t.Stop()
			enough = t.C
		}
	}
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
