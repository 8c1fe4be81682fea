package shell_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// besideSpec passes records on after f has seen them, with the context of the call.
func besideSpec(p retry.Policy, f func(ctx context.Context, r *task.Record) error) *task.Spec {
	return &task.Spec{
		Inputs: []task.Input{{Topic: "in"}}, Dests: []task.Dest{{Topic: "out"}}, Failure: p,
		Build: func(e *task.Env) (*task.Graph, error) {
			return &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
				if err := f(e.Context(), r); err != nil {
					e.Fail("f", task.KindProcess, err)
					return
				}
				e.Send(0, 0, append(e.Tail(), r.Value...), -1, len(r.Value), r.Timestamp, nil)
			}}}, nil
		},
	}
}

func (b *bench) many(n int) {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint("v", i))
	}
	b.put(all...)
}

func TestWorkersRunRecordsBesideEachOther(t *testing.T) {
	b := newBench(t, 1)
	var now, most atomic.Int64
	b.spec(besideSpec(retry.Parallel(retry.Workers(8)), func(context.Context, *task.Record) error {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		return nil
	}))
	b.many(200)
	_, stop := b.run()
	b.comesOut(200)
	require.EqualValues(t, 8, most.Load())
	require.NoError(t, stop(5*time.Second))
}

func TestWorkersThatAreIdleEnd(t *testing.T) {
	b := newBench(t, 1)
	b.spec(besideSpec(retry.Parallel(retry.Workers(4)), func(context.Context, *task.Record) error { time.Sleep(time.Millisecond); return nil }))
	b.config.WorkerIdleFor = 50 * time.Millisecond
	b.many(50)
	_, stop := b.run()
	b.comesOut(50)
	require.Eventually(t, func() bool { return goroutines("shell.(*worker).run") == 0 }, 10*time.Second, 10*time.Millisecond)
	b.put("again")
	b.comesOut(51)
	require.NoError(t, stop(5*time.Second))
}

func TestWorkerWhoseGoroutineIsEndedFailsItsRecord(t *testing.T) {
	b := newBench(t, 1)
	b.spec(besideSpec(retry.Parallel(retry.Workers(2), retry.Attempts(1)), func(_ context.Context, r *task.Record) error {
		if string(r.Value) == "bad" {
			runtime.Goexit()
		}
		return nil
	}))
	b.put("good", "bad")
	err := b.fails(8 * time.Second)
	var te *task.Error
	require.ErrorAs(t, err, &te)
	require.Equal(t, task.KindPanic, te.Kind)
	require.Equal(t, "in", te.Topic)
	require.EqualValues(t, 1, te.Offset)
	require.ErrorContains(t, err, "runtime.Goexit")
}

func TestWorkersSkipWhatFailsThere(t *testing.T) {
	b := newBench(t, 1)
	b.spec(besideSpec(retry.Parallel(retry.Workers(2), retry.Attempts(1), retry.ThenSkip()), func(_ context.Context, r *task.Record) error {
		switch r.Offset % 4 {
		case 1:
			return errors.New("ill")
		case 2:
			panic("ill")
		case 3:
			runtime.Goexit()
		}
		return nil
	}))
	b.many(40)
	_, stop := b.run()
	b.comesOut(10)
	require.NoError(t, stop(5*time.Second))
}

func TestWorkersCallHasATime(t *testing.T) {
	b := newBench(t, 1)
	var calls atomic.Int64
	p := retry.Parallel(retry.Workers(2), retry.Timeout(20*time.Millisecond), retry.Backoff(time.Millisecond, time.Millisecond))
	b.spec(besideSpec(p, func(ctx context.Context, r *task.Record) error {
		if string(r.Value) == "slow" && calls.Add(1) <= 2 {
			<-ctx.Done()
			return ctx.Err()
		}
		return ctx.Err()
	}))
	b.put("slow", "other")
	_, stop := b.run()
	b.comesOut(2)
	require.EqualValues(t, 3, calls.Load())
	require.NoError(t, stop(5*time.Second))
}

func TestTheEndCancelsWhatWorkersRun(t *testing.T) {
	b := newBench(t, 1)
	entered := make(chan struct{}, 8)
	b.spec(besideSpec(retry.Parallel(retry.Workers(2)), func(ctx context.Context, _ *task.Record) error {
		entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}))
	b.many(4)
	_, stop := b.run()
	<-entered
	require.NoError(t, stop(5*time.Second))
}

func TestTheWatchdogSeesAWorkersCall(t *testing.T) {
	b := newBench(t, 1)
	let := make(chan struct{})
	b.spec(besideSpec(retry.Parallel(retry.Workers(2)), func(_ context.Context, r *task.Record) error {
		if string(r.Value) == "stuck" {
			<-let
		}
		return nil
	}))
	b.config.CallTimeout, b.config.Engine.MaxStuck, b.config.Engine.CloseWithin = 200*time.Millisecond, -1, time.Second
	b.put("good", "stuck")
	err := b.fails(8 * time.Second)
	close(let)
	var stuck *engine.StuckError
	require.ErrorAs(t, err, &stuck)
	var late *shell.CallTimeoutError
	require.ErrorAs(t, err, &late)
	require.EqualValues(t, 1, late.Offset)
}

func TestWorkersThatCannotBeMadeFailTheTask(t *testing.T) {
	b := newBench(t, 1)
	var built atomic.Int64
	s := besideSpec(retry.Parallel(retry.Workers(2)), func(context.Context, *task.Record) error { return nil })
	build := s.Build
	s.Build = func(e *task.Env) (*task.Graph, error) {
		switch built.Add(1) {
		case 1:
			return build(e)
		case 2:
			return nil, errors.New("no more of them")
		}
		runtime.Goexit()
		return nil, nil
	}
	b.spec(s)
	b.many(10)
	require.Error(t, b.fails(8*time.Second))
}

func TestCallbacksOfCommitsComeToTheirWorkers(t *testing.T) {
	b := newBench(t, 1)
	var done, wrong atomic.Int64
	s := besideSpec(retry.Parallel(retry.Workers(3)), nil)
	s.Build = func(e *task.Env) (*task.Graph, error) {
		own := 0 // not guarded: it belongs to these nodes
		return &task.Graph{Inputs: []func(*task.Record){func(r *task.Record) {
			own++
			e.CommitAsync(func(err error) {
				own--
				if err != nil {
					wrong.Add(1)
				}
				done.Add(1)
				e.Send(0, 0, append(e.Tail(), "done"...), -1, 4, 1, nil)
			})
		}}}, nil
	}
	b.spec(s)
	b.config.WorkerIdleFor = time.Millisecond
	b.many(60)
	_, stop := b.run()
	b.comesOut(60)
	require.NoError(t, stop(5*time.Second))
	require.EqualValues(t, 60, done.Load())
	require.Zero(t, wrong.Load())
}
