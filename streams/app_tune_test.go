package streams

import "github.com/understudy-streams/understudy/internal/shell"

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
