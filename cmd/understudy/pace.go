package main

import (
	"context"
	"time"

	"github.com/understudy-streams/understudy/internal/outside"
)

// pace holds a rate.
type pace struct {
	rate float64 // a second; 0: no limit
	next time.Time
}

// most is how many may go at once: no more than a quarter of a second's.
func (p *pace) most(n int) int {
	if p.rate == 0 {
		return n
	}
	return max(1, min(n, int(p.rate/4)))
}

// wait waits until so many may go.
func (p *pace) wait(ctx context.Context, n int) error {
	if p.rate == 0 {
		return nil
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	err := outside.Sleep(ctx, p.next.Sub(now))
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return err
}

// grace is a context that ends so long after another one.
func grace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = outside.Sleep(late, d)
		cancel(context.Cause(ctx))
	})
	return late, func() { stop(); cancel(nil) }
}
