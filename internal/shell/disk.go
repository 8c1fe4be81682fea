package shell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// Disk is where the stores are.
type Disk interface {
	// Room says how many bytes are free, of how many, after it has written a little; err is why that failed.
	Room() (free, total int64, err error)
	// Free says the same without writing; -1 where it is not known.
	Free() (free, total int64)
	// Full reports whether an error is for want of room.
	Full(err error) bool
	// Health returns nil while the database can be written.
	Health() error
	// Ready returns when the database has taken what it was given, or why it cannot, or when ctx ends. One that broke down is opened again.
	Ready(ctx context.Context) error
	// Watch names who is told of errors that come up apart from a write. He must not block. Nil ends it.
	Watch(func(error))
}

// disk looks after the disk on behalf of the engine.
type disk struct {
	r       *Runtime
	trouble chan error // the first error that nobody has looked at yet
}

func newDisk(r *Runtime) *disk { return &disk{r: r, trouble: make(chan error, 1)} }

// start begins to listen to what the database says of itself.
func (d *disk) start() {
	if d.r.cfg.Disk == nil {
		return
	}
	d.r.cfg.Disk.Watch(func(err error) {
		select {
		case d.trouble <- err:
			return
		default: // another one is being looked at; what lasts comes again
		}
		var damaged *pebblestore.CorruptError
		if errors.As(err, &damaged) { // that is told once
			select {
			case <-d.trouble:
			default:
			}
			select {
			case d.trouble <- err:
			default:
			}
		}
	})
	d.r.request(d.watch)
}

func (d *disk) stop() {
	if d.r.cfg.Disk != nil {
		d.r.cfg.Disk.Watch(nil)
	}
}

// watch tells the engine of a full disk at once, and of other trouble once it has lasted: the database tries again by itself.
func (d *disk) watch(ctx context.Context) {
	var late <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-d.trouble:
			var broken *pebblestore.BrokenError
			var damaged *pebblestore.CorruptError
			switch told := d.explain(err); {
			case d.isFull(told), errors.As(err, &broken), errors.As(err, &damaged):
				d.r.post(engine.StoreTrouble{Err: told})
			case late == nil:
				late = time.After(d.wait())
			}
		case <-late:
			late = nil
			if err := d.r.cfg.Disk.Health(); err != nil {
				d.r.post(engine.StoreTrouble{Err: d.explain(err)})
			}
		}
	}
}

// wait is how long the database may fail to write before that ends the application.
func (d *disk) wait() time.Duration {
	if d.r.cfg.DiskPatience <= 0 {
		return 10 * time.Second
	}
	return d.r.cfg.DiskPatience
}

// fullWait is how long the end waits for a disk that is known to take nothing.
const fullWait = 500 * time.Millisecond

// patience is how long the end waits for the disk.
func (d *disk) patience() time.Duration {
	if on := d.r.cfg.Disk; on != nil && on.Health() != nil {
		return fullWait
	}
	return closeWait
}

func (d *disk) isFull(err error) bool {
	var full *engine.NoRoomError
	return errors.As(err, &full)
}

// explain makes the engine's error of one for want of room, and adds the remedy to others that have one.
func (d *disk) explain(err error) error {
	on := d.r.cfg.Disk
	if err == nil || on == nil || d.isFull(err) {
		return err
	}
	if on.Full(err) {
		free, _ := on.Free()
		return &engine.NoRoomError{Dir: d.r.cfg.Engine.StateDir, Free: free, Err: err}
	}
	if remedy := pebblestore.Remedy(err); remedy != "" {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

// ofTask explains why a task failed, if that was a store. What a user's function meets with on its own disk is its own affair.
func (d *disk) ofTask(err error) error {
	var te *task.Error
	if errors.As(err, &te) && te.Kind == task.KindStore {
		return d.explain(err)
	}
	return err
}

// full reports whether the database waits for room.
func (d *disk) full() bool {
	on := d.r.cfg.Disk
	return on != nil && on.Full(on.Health())
}

// overrun is called when a write has not ended by its deadline: on a full disk the database blocks.
func (d *disk) overrun(late error) {
	if on := d.r.cfg.Disk; on != nil {
		if err := on.Health(); err != nil {
			d.r.post(engine.StoreTrouble{Err: d.explain(errors.Join(late, err))})
			return
		}
	}
	d.r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: "write of the stores", Err: late})
}

// gate refuses to restore onto a disk that has no room for it, before the disk does: what else is written to it needs the rest.
func (d *disk) gate(bytes int) error {
	on := d.r.cfg.Disk
	if on == nil {
		return nil
	}
	free, total := on.Free()
	if free < 0 || free-int64(bytes) >= min(restoreReserve, total/20) {
		return nil
	}
	return &engine.NoRoomError{Dir: d.r.cfg.Engine.StateDir, Free: free, Err: errNoRoomToRestore}
}

// restoreReserve is what a restore leaves free, or a twentieth of a small disk. It is less than what ends a suspension.
const restoreReserve = 32 << 20

var errNoRoomToRestore = errors.New("a restore would take the last room of the disk")

func (d *disk) probe(ctx context.Context) {
	d.apart(ctx, func() {
		free, total, err := d.r.cfg.Disk.Room()
		d.r.post(engine.DiskProbed{Free: free, Total: total, Err: d.explain(err)})
	})
}

func (d *disk) ready(ctx context.Context) {
	d.apart(ctx, func() { d.r.post(engine.StoresReady{Err: d.explain(d.r.cfg.Disk.Ready(ctx))}) })
}

// apart carries f out and waits for it, until ctx ends: a disk that hangs does not hold up the end.
func (d *disk) apart(ctx context.Context, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer d.r.guard("a goroutine of the runtime")
		f()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
