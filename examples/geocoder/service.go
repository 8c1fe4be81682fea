package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// service stands for a geocoding service on the network.
type service struct {
	Latency        time.Duration
	Fails, Unknown float64

	toggled <-chan struct{} // the outage is switched on and off
	down    atomic.Bool
}

var (
	errUnknown     = errors.New("no such address")
	errUnavailable = errors.New("service unavailable")
	errOverloaded  = errors.New("service overloaded")
)

// locate returns the coordinates of an address. The same address is always at the same place.
func (s *service) locate(ctx context.Context, address string) (string, error) {
	select {
	case <-s.toggled:
		s.down.Store(!s.down.Load())
	default:
	}
	if err := s.travel(ctx); err != nil {
		return "", err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(address))
	n := h.Sum32()
	switch {
	case s.down.Load():
		return "", errUnavailable
	case float64(n%100_000) < s.Unknown*100_000:
		return "", fmt.Errorf("%w: %s", errUnknown, address)
	case rand.Float64() < s.Fails:
		return "", errOverloaded
	}
	return fmt.Sprintf("%.4f, %.4f", float64(n%1_800_000)/10_000-90, float64(n/7%3_600_000)/10_000-180), nil
}

// travel takes the time of a call.
func (s *service) travel(ctx context.Context) error {
	if s.Latency <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(time.Duration((0.5 + rand.Float64()) * float64(s.Latency)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var streets = []string{
	"Abbey", "Baker", "Cable", "Dean", "Elm", "Fleet", "Grove", "High", "Ivy", "Jamaica", "King", "Lime", "Mill", "North", "Oak", "Park", "Queen",
	"River", "Station", "Temple", "Union", "Victoria", "Wharf", "York",
}

// addressOf is the i-th address, and the street that it is in.
func addressOf(i int) (street, address string) {
	street = streets[i%len(streets)]
	return street, fmt.Sprintf("%d %s Street", i/len(streets)+1, street)
}
