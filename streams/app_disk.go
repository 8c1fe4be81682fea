package streams

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
)

// awaitState opens the state directory as soon as the disk has room for it. It returns nil without an error when the application is closed
// meanwhile.
func (a *App) awaitState(ctx context.Context) (*stateDir, error) {
	began := time.Now()
	for try := 0; ; try++ {
		state, err := a.openState()
		switch {
		case err == nil && try > 0:
			err = a.tellEarly(engine.Notice{Kind: engine.NoticeResumed, Took: time.Since(began)})
			if err != nil {
				return nil, state.close(err, a.cfg.Log)
			}
			return state, nil
		case err == nil || !pebblestore.IsFull(err):
			return state, err
		case try == 0:
			why := &NoRoomError{Dir: filepath.Join(a.cfg.StateDir, a.cfg.ApplicationID), Free: -1, Err: err}
			err = errors.Join(a.tellEarly(engine.Notice{Kind: engine.NoticeSuspended, Err: why}),
				a.tellEarly(engine.Notice{Kind: engine.NoticeState, State: engine.Suspended}))
			if err != nil {
				return nil, err
			}
		}
		if !a.pause(ctx, engine.ProbeAfter(try)) {
			return nil, nil
		}
	}
}

// tellEarly tells the listener something before there is a runtime to do it.
func (a *App) tellEarly(n engine.Notice) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &CrashError{Where: "the listener", Value: v, Stack: debug.Stack()}
		}
	}()
	a.notice(n)
	return nil
}

// pause waits, and reports false if the application is closed meanwhile.
func (a *App) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-a.closing:
	}
	return false
}

// sickWait is how long the end waits for writes when the disk is known to take none.
const sickWait = time.Second

// close closes what openState opened and joins its errors to err. A disk that does not answer cannot be waited for: the database stays open
// then, and the directory locked, until the program ends. What a full disk did not take is no error: it is restored from the changelogs.
func (s *stateDir) close(err error, log *zap.Logger) error {
	if s.dir == nil {
		return err
	}
	written, done := make(chan struct{}), make(chan error, 1)
	go func() {
		s.writers.Close()
		close(written)
		done <- s.dir.Close()
	}()
	if s.dir.Health() != nil {
		s.giveUp(written)
	}
	limit := time.NewTimer(writeDeadline)
	defer limit.Stop()
	select {
	case closed := <-done:
		if pebblestore.IsFull(closed) {
			log.Warn("the disk is full: what it did not take is restored from the changelogs", zap.String("dir", s.dir.Path), zap.Error(closed))
			return err
		}
		return errors.Join(err, closed)
	case <-limit.C:
		return errors.Join(err, fmt.Errorf("streams: the state directory was not closed within %v: look for a full or slow disk", writeDeadline))
	}
}

// giveUp ends writes that would wait for a disk that is full, or fails.
func (s *stateDir) giveUp(written <-chan struct{}) {
	t := time.NewTimer(sickWait)
	defer t.Stop()
	select {
	case <-written:
	case <-t.C:
		s.dir.GiveUp()
	}
}
