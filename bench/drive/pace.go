package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// joining is how long a program may take until its group is stable.
	joining = time.Minute
	// settled is how long it then has for itself.
	settled = 2 * time.Second
)

// pace waits until the program has joined its group and then produces the input at the workload's pace, in the background. It says when that
// began. The context ends when producing fails; done ends it otherwise, and must be called.
func (r *run) pace(ctx context.Context) (_ context.Context, began time.Time, done func(), err error) {
	c := r.bench.cluster
	if err := c.await(ctx, r.app, joining, func(stable, _ bool) bool { return stable || r.process.ended() }); err != nil {
		return ctx, began, nil, fmt.Errorf("%w: %s", err, r.process.lastWords())
	}
	if err := pause(ctx, settled); err != nil {
		return ctx, began, nil, err
	}
	w, err := c.writer(r.in.topic(), kgo.ProducerLinger(time.Millisecond))
	if err != nil {
		return ctx, began, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	began = time.Now()
	go func() {
		defer close(ended)
		if err := w.pace(ctx, r.in.all(), r.w.paced); err != nil {
			cancel(fmt.Errorf("pace: %w", err))
		}
	}()
	return ctx, began, func() {
		cancel(nil) // all is written, or the program was given up
		<-ended
	}, nil
}

// pace produces so many records a second, and closes the writer.
func (w *writer) pace(ctx context.Context, records iter.Seq2[[]byte, []byte], perSecond int) error {
	const tick = 2 * time.Millisecond
	began, sent := time.Now(), 0
	for k, v := range records {
		for sent >= int(time.Since(began).Seconds()*float64(perSecond)) {
			if err := pause(ctx, tick); err != nil {
				w.client.Close()
				return err
			}
		}
		w.write(ctx, k, v)
		sent++
	}
	return w.close(ctx)
}
