package pebblestore

import (
	"io"
	"sync"
)

// gate holds the lock of a database's directory. A database that has broken down changes nothing any more: once what it was about to do is
// done, somebody else may have the directory.
type gate struct {
	mu     sync.Mutex
	inside int // changes of the file system under way
	shut   bool
	lock   io.Closer // nil if not held
}

// enter reports whether a change may be made. If so, leave comes after it.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.unlock()
}

// close lets no further change in.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	g.unlock()
}

// unlock gives the lock back if the gate is closed and nobody inside. The caller holds mu.
func (g *gate) unlock() {
	if g.shut && g.inside == 0 && g.lock != nil {
		_ = g.lock.Close() // there is nobody to tell, and the process's end does the same
		g.lock = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// isFree reports whether the directory is free for somebody else.
func (g *gate) isFree() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lock == nil
}

// locked keeps the lock until it is closed, or the gate is.
func (g *gate) locked(lock io.Closer) io.Closer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lock = lock
	return gateLock{g}
}

type gateLock struct{ g *gate }

// Close gives the lock back.
func (l gateLock) Close() error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.g.lock == nil {
		return nil
	}
	err := l.g.lock.Close()
	l.g.lock = nil
	return err
}

// lockError says that the database is in use.
type lockError struct{ error }

func (e *lockError) Unwrap() error { return e.error }
