package offsetstore

import "context"

// turn is a lock for which one waits no longer than a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // also where the lock is free: a caller that has ended saves nothing
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
