package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Held is the state directory of an application that does not run, locked so that no process of it can begin on this machine.
type Held struct {
	Path string
	// State are the databases, also those that were put aside: paths, sorted.
	State []string
	// Strangers are what this package has not made. They stay.
	Strangers []string

	lock io.Closer
}

// Hold locks the directory of an application below stateDir. The error is a *LockedError if a process uses it, and has fs.ErrNotExist in its
// chain if there is none.
func Hold(stateDir, applicationID string) (*Held, error) {
	h, err := Look(stateDir, applicationID)
	if err != nil {
		return nil, err
	}
	lock, held, pid, err := lockFile(filepath.Join(h.Path, lockName))
	if err != nil {
		return nil, fmt.Errorf("pebblestore: lock %s: %w", h.Path, err)
	}
	if held {
		return nil, &LockedError{Dir: h.Path, PID: pid}
	}
	h.lock = lock
	return h, nil
}

// Look names what is in the directory of an application below stateDir and locks nothing: only a Held of [Hold] can clear it.
func Look(stateDir, applicationID string) (*Held, error) {
	h := &Held{Path: filepath.Join(stateDir, applicationID)}
	files, err := os.ReadDir(h.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("pebblestore: there is no state of application %q below %s, the directory that its Config.StateDir names: %w", applicationID, stateDir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("pebblestore: %w", err)
	}
	for _, f := range files {
		switch name := f.Name(); {
		case name == dbName || strings.HasPrefix(name, dbName+asideInfix):
			h.State = append(h.State, filepath.Join(h.Path, name))
		case name != lockName && name != processIDName:
			h.Strangers = append(h.Strangers, filepath.Join(h.Path, name))
		}
	}
	slices.Sort(h.State)
	slices.Sort(h.Strangers)
	return h, nil
}

// Clear deletes the state. What is left of it if that fails is named by [Look] again. The application's identity stays.
func (h *Held) Clear() error {
	if h.lock == nil {
		return errors.New("pebblestore: the directory is not locked")
	}
	for _, path := range h.State {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("pebblestore: delete state: %w", err)
		}
	}
	return nil
}

// Remove deletes the state and then the directory, unless there are strangers in it.
func (h *Held) Remove() error {
	if err := h.Clear(); err != nil || len(h.Strangers) > 0 {
		return err
	}
	for _, name := range []string{processIDName, lockName} {
		if err := os.Remove(filepath.Join(h.Path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pebblestore: delete state: %w", err)
		}
	}
	if err := os.Remove(h.Path); err != nil {
		return fmt.Errorf("pebblestore: delete state: %w", err)
	}
	return nil
}

// Close unlocks the directory.
func (h *Held) Close() error {
	if h.lock == nil {
		return nil
	}
	lock := h.lock
	h.lock = nil
	return lock.Close()
}
