package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/bench/work"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// failing runs the workloads of the failure benchmark, records that fail (failing) and records that sleep (sleeping), and that of the recovery
// benchmark, records that wait (recover).
func failing(args []string) error {
	fs := flag.NewFlagSet("understudy "+args[0], flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	in := fs.String("in", "in", "input topic")
	out := fs.String("out", "out", "failing: output topic")
	app := fs.String("app", "bench-understudy", "application id")
	state := fs.String("state", "", "state directory")
	threads := fs.Int("threads", 2, "GOMAXPROCS")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	order := fs.String("order", "none", "of the records: all, key or none")
	workers := fs.Int("workers", 1, "records of one task at a time")
	alone := fs.Int("alone", 1, "sleeping: goroutines that make the same sleeps afterwards, without Kafka")
	records := fs.Int("records", 0, "sleeping: all there are; failing: those that are to come later")
	waitMicros := fs.Int("wait-us", 0, "recover: what each record waits, in microseconds")
	recovery := fs.String("recovery", "serial", "recover: serial, with the default policy, or parallel")
	session := fs.Int("session-ms", 0, "session timeout; 0: the default")
	profile := fs.String("profile", "", "write PREFIX.cpu and PREFIX.heap between SIGUSR1 and SIGUSR2")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	mode := streams.RecoverSerial
	if args[0] == "recover" {
		if *order = "all"; *recovery == "parallel" {
			*order, mode = "none", streams.RecoverParallel
		}
	}
	policy, err := policyFor(*order, *workers)
	if err != nil {
		return err
	}
	builder := streams.NewBuilder()
	source := builder.Stream(*in, serde.String, serde.Bytes, streams.OnFailure(policy))
	sleeper := work.NewSleeper(*records)
	switch args[0] {
	case "sleeping":
		source.TryForEach("sleep", func(_ context.Context, r streams.Record[string, []byte]) error { return sleeper.Call(r.Key, r.Value) })
	case "recover":
		source.TryMapValues("wait", func(_ context.Context, r streams.Record[string, []byte]) ([]byte, error) {
			time.Sleep(time.Duration(*waitMicros) * time.Microsecond) // none returns at once
			return r.Value, nil
		}).To(*out)
	default:
		delays := work.NewDelays(*records)
		source.TryMapValues("work", func(_ context.Context, r streams.Record[string, []byte]) ([]byte, error) {
			return r.Value, obey(r.Value, delays)
		}).To(*out)
	}
	logger, err := zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(*threads)
	closeProfile := func() error { return nil }
	if *profile != "" {
		closeProfile = newProfiler(*profile).close
	}
	application, err := streams.New(builder, streams.Config{
		ApplicationID:  *app,
		Brokers:        strings.Split(*brokers, ","),
		StateDir:       *state,
		CommitInterval: time.Duration(*commit) * time.Millisecond,
		Session:        time.Duration(*session) * time.Millisecond,
		Recovery:       mode,
		RecoverAbove:   recoverAbove,
		Log:            logger,
		Listener:       new(restores).listener(),
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		select {
		case <-sleeper.Done:
			sleeper.Report(*alone)
		case <-ctx.Done():
		}
	}()
	return errors.Join(application.Run(ctx), closeProfile())
}

// recoverAbove is low, so that small gaps are replayed beside fresh records too.
const recoverAbove = 10

// Records that fail are tried four times, 0.1, 0.2 and 0.4 seconds after one another, before they are dead letters.
const attempts, firstWait, longestWait = 4, 100 * time.Millisecond, time.Second

func policyFor(order string, workers int) (retry.Policy, error) {
	common := []retry.Option{retry.Attempts(attempts), retry.Backoff(firstWait, longestWait), retry.ThenDeadLetter()}
	switch order {
	case "all":
		return retry.Ordered(common...), nil
	case "key":
		return retry.KeyOrdered(append(common, retry.Workers(workers))...), nil
	case "none":
		return retry.Parallel(append(common, retry.Workers(workers))...), nil
	}
	return retry.Policy{}, fmt.Errorf("--order %s: there are all, key and none", order)
}

var errBroken = errors.New("this record always fails")

// obey does what the value says.
func obey(value []byte, delays *work.Delays) error {
	if len(value) == 0 {
		return errors.New("a record without a value")
	}
	switch value[0] {
	case work.Good:
		return nil
	case work.Fails:
		return errBroken
	}
	v, err := work.Parse(value)
	if err != nil {
		return err
	}
	wait, err := delays.Call(v)
	if err == nil && wait > 0 {
		err = retry.Snooze(wait) // not an attempt, and no sign of an outage
	}
	return err
}
