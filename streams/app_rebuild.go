package streams

import (
	"context"
	"errors"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/shell"
)

// rebuildEvery is how soon the state may be rebuilt again without an end of Run in between. Damage that comes back sooner is the disk's or
// the memory's, and somebody should look at it.
const rebuildEvery = 10 * time.Minute

// runs runs the application until it ends. Where its state turns out to be damaged it begins anew, with the state put aside and restored from
// the changelogs: a task that cannot read its store, or a compaction that cannot read a table, ends a run as every error does, cleanly and out
// of the group, and the damage is noted on the disk before.
func (a *App) runs(ctx context.Context, client *kafka.Client) error {
	var last time.Time
	var damage error
	for {
		state, err := a.awaitState(ctx)
		if err != nil || state == nil {
			return errors.Join(damage, err)
		}
		if err := a.tellPutAside(state); err != nil {
			return state.close(err, a.cfg.Log)
		}
		a.again = func() bool {
			return state.damaged() && !a.asked(ctx) && (last.IsZero() || time.Since(last) >= rebuildEvery)
		}
		r := shell.New(a.shell(client, state))
		if !a.begin(r) {
			return state.close(nil, a.cfg.Log)
		}
		a.rebuild = false
		damage = state.close(state.explain(publicError(r.Run(ctx))), a.cfg.Log)
		if !a.rebuild {
			return damage
		}
		last = time.Now()
	}
}

// ends is asked on the core loop whether the end of its run, which it is about to tell, is that of the application.
func (a *App) ends() bool {
	a.rebuild = a.again != nil && a.again()
	return !a.rebuild
}

// asked reports whether somebody has asked for the end.
func (a *App) asked(ctx context.Context) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed || a.drains || ctx.Err() != nil
}

// damaged reports whether damage has been found in the state.
func (s *stateDir) damaged() bool { return s.dir != nil && s.dir.Corruption() != nil }

// explain adds to the error that ended a run that the state is damaged, if it is: a task that fails over it only says that it could not read.
func (s *stateDir) explain(err error) error {
	var said *StoreError
	if err == nil || !s.damaged() || errors.As(err, &said) {
		return err
	}
	return errors.Join(&StoreError{Op: engine.OpRead, Dir: s.dir.Path, Err: s.dir.Corruption()}, err)
}

// tellPutAside tells the listener of a state that was put aside. Whoever did so has logged it.
func (a *App) tellPutAside(s *stateDir) error {
	if s.dir == nil || s.dir.PutAside == "" {
		return nil
	}
	return a.tellEarly(engine.Notice{Kind: engine.NoticePutAside, Text: s.dir.PutAside})
}
