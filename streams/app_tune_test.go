package streams

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-streams/understudy/internal/shell"
)

// Tune lets a test change times that Config does not have. Call it before Run.
func (a *App) Tune(f func(*shell.Config)) {
	before := a.tune
	a.tune = func(c *shell.Config) {
		if before != nil {
			before(c)
		}
		f(c)
	}
}

// StateOn puts the state on a file system that a test lets fail: a wrapper of the operating system's. Call it before Run.
func (a *App) StateOn(fs vfs.FS) { a.stateFS = fs }
