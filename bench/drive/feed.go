package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/bench/work"
)

// feeder writes records at a pace while a program runs, on one client for all of them.
type feeder struct {
	writer *writer
	fed    sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func (t *trial) feeder() (*feeder, error) {
	w, err := t.bench.cluster.writer(t.in.topic(), kgo.ProducerLinger(time.Millisecond))
	return &feeder{writer: w}, err
}

// feed writes so many records a second until n are written (0: no end) or the returned function is called, which says how many there were. Each
// is made when it is sent.
func (f *feeder) feed(ctx context.Context, perSecond float64, n int, next func(i int) work.Value) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	sent := 0
	done := make(chan struct{})
	f.fed.Go(func() {
		defer close(done)
		var err error
		if sent, err = f.pace(ctx, perSecond, n, next); err != nil {
			f.mu.Lock()
			f.err = errors.Join(f.err, err)
			f.mu.Unlock()
		}
	})
	return func() int {
		cancel()
		<-done
		return sent
	}
}

const (
	feedTick = time.Millisecond
	// feedBehind is how far the harness may fall behind its own pace before a run says nothing.
	feedBehind = time.Second
)

func (f *feeder) pace(ctx context.Context, perSecond float64, n int, next func(i int) work.Value) (sent int, err error) {
	for began := time.Now(); n == 0 || sent < n; {
		for due := int(time.Since(began).Seconds() * perSecond); sent < due && (n == 0 || sent < n); sent++ {
			if behind := time.Duration(float64(due-sent) / perSecond * float64(time.Second)); behind > feedBehind {
				return sent, fmt.Errorf("the harness is %s behind its pace", behind)
			}
			v := next(sent)
			f.writer.write(context.WithoutCancel(ctx), key(v.Seq%feedKeys), v.Append(nil))
		}
		if pause(ctx, feedTick) != nil {
			return sent, nil // that is how an endless one ends
		}
	}
	return sent, nil
}

// feedKeys is how many keys the records of a feeder have.
const feedKeys = 100_000

// close waits until all is written.
func (f *feeder) close(ctx context.Context) error {
	f.fed.Wait()
	return errors.Join(f.err, f.writer.close(ctx))
}

// stamped is a good record of now.
func stamped(kind byte, seq int) work.Value {
	return work.Value{Kind: kind, Seq: seq, Number: time.Now().UnixNano()}
}
