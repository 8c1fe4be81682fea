package main

import (
	"context"
	"time"
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
	err := sleep(ctx, p.next.Sub(now))
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return err
}
