package pebblestore

import (
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/internal/fail"
)

// Flush makes everything applied so far durable. On a full disk it blocks until there is room.
func (d *DB) Flush() error {
	d.mu.Lock()
	err := d.check()
	if err == nil {
		d.unflushed = 0
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	fail.Point("flush.before")
	if err := d.health.guard(d.db.Flush); err != nil {
		return fmt.Errorf("pebblestore: flush: %w", err)
	}
	fail.Point("flush.after")
	return d.health.err()
}

// FlushIfDue begins a flush if the oldest unflushed change is older than FlushEvery, for times at which nothing is applied. It does not wait.
func (d *DB) FlushIfDue() error { return d.count(0) }

// count counts changes and begins a flush when one is due. It does not wait for it.
func (d *DB) count(changes int) error {
	now := d.opts.Now()
	d.mu.Lock()
	if d.unflushed == 0 {
		d.oldest = now
	}
	d.unflushed += changes
	due := d.unflushed > 0 && (d.unflushed >= d.opts.FlushRecords || now.Sub(d.oldest) >= d.opts.FlushEvery)
	err := d.check()
	if due && err == nil {
		d.unflushed = 0
	}
	d.mu.Unlock()
	if err != nil || !due {
		return err
	}
	if err := d.health.guard(d.asyncFlush); err != nil {
		return fmt.Errorf("pebblestore: flush: %w", err)
	}
	return nil
}

func (d *DB) asyncFlush() error {
	_, err := d.db.AsyncFlush()
	return err
}

// janitor closes the iterators that readers keep between reads whenever a flush has ended: one of a task without work would hold on to
// a memtable and to files that are gone otherwise.
func (d *DB) janitor() {
	defer close(d.stopped)
	for {
		select {
		case <-d.idle:
			fail.Point("flush.ended")
		case <-d.quit:
			return
		}
		d.mu.Lock()
		open := slices.Collect(maps.Values(d.tasks))
		d.mu.Unlock()
		for _, t := range open {
			t.closeIdle()
		}
	}
}
