package main

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/bench/work"
)

// The recovery benchmark's workloads.
const (
	freshFirst = "first fresh result after kill -9"
	gapOfWaits = "a gap whose records wait 1 ms each"
)

// How the variants go on after a crash: ours on two paths, ours on one, and Kafka Streams on its one.
const onOnePath = "understudy, serial"

const (
	// freshRate is how many records a second come while the program is back.
	freshRate = 200
	// recoveryWarm is how many records come before the crash.
	recoveryWarm = 1_000
	// besideEach is how many records of a task are processed at a time where that is given up the order for.
	besideEach = 4
	gapWait    = time.Millisecond
	// recovered is how long a gap may take to be closed.
	recovered = 5 * time.Minute
)

var recoveryLags = []int{100, 10_000, 1_000_000}

const quickestLag, waitingGap, quickGap = 100_000, 40_000, 8_000

// recoveries is the work of `make bench-recovery`.
func recoveries() []workload {
	way := func(name, program string, lag int, wait time.Duration) variant {
		v := variant{name: name, program: program, records: lag, from: wait, to: wait, order: "serial", workers: 1}
		if name == ours {
			v.order, v.workers = "parallel", besideEach
		}
		return v
	}
	all := func(lag int, wait time.Duration) []variant {
		return []variant{way(ours, ours, lag, wait), way(onOnePath, ours, lag, wait), way(ks, ks, lag, wait)}
	}
	fresh := workload{name: freshFirst, trouble: &trouble{measure: (*bench).recovering}}
	for _, lag := range recoveryLags {
		for _, v := range all(lag, 0) {
			v.name = behindBy(v.name, lag)
			fresh.trouble.variants = append(fresh.trouble.variants, v)
		}
	}
	return []workload{fresh, {name: gapOfWaits, trouble: &trouble{all(waitingGap, gapWait), (*bench).recovering}}}
}

func behindBy(way string, lag int) string { return way + ", lag " + thousands(float64(lag)) }

// recovering kills the program, lets the log grow meanwhile, and starts it again while fresh records come.
func (b *bench) recovering(v variant) measuring {
	if b.settings.scale < 1 {
		v.records = min(v.records, quickestLag)
		if v.from > 0 {
			v.records = quickGap
		}
	}
	sessionMs := strconv.FormatInt(session.Milliseconds(), 10)
	details := []string{"recover", "--wait-us", strconv.FormatInt(v.from.Microseconds(), 10)}
	if v.program == ours {
		details = append(details, "--recovery", v.order, "--workers", strconv.Itoa(v.workers), "--session-ms", sessionMs)
	} else {
		details = append(details, "--consumer.session.timeout.ms", sessionMs, "--consumer.heartbeat.interval.ms", "2000")
	}
	return b.trial(v, partitions, details, func(ctx context.Context, t *trial) error {
		t.result.Command += " --out " + t.out
		t.result.Records = v.records
		old, err := t.crash(ctx)
		if err != nil {
			return err
		}
		back, sent, err := t.comeBack(ctx, old)
		if err != nil {
			return err
		}
		t.undisturbed()
		if err := t.finish(ctx); err != nil {
			return err
		}
		return t.freshness(ctx, back, recoveryWarm+v.records, sent)
	})
}

// crash runs the program, kills it, and lets the log grow. It says where that ends.
func (t *trial) crash(ctx context.Context) (old kadm.ListedOffsets, err error) {
	if err := t.write(ctx, 0, recoveryWarm); err != nil {
		return old, err
	}
	if err := t.begin(ctx); err != nil {
		return old, err
	}
	ends, _, err := t.bench.cluster.ends(ctx, t.in.topic())
	if err == nil {
		err = t.awaitCommitted(ctx, ends)
	}
	if err != nil {
		return old, err
	}
	t.process.signal(syscall.SIGKILL)
	<-t.process.exited
	if err := t.write(ctx, recoveryWarm, recoveryWarm+t.variant.records); err != nil {
		return old, err
	}
	err = t.bench.cluster.await(ctx, t.app, joining, func(_, empty bool) bool { return empty }) // its session has ended
	if err != nil {
		return old, err
	}
	old, _, err = t.bench.cluster.ends(ctx, t.in.topic())
	return old, err
}

// comeBack starts the program while fresh records come, until nothing is left of the gap. It says when it was started and how many records there
// are in all.
func (t *trial) comeBack(ctx context.Context, old kadm.ListedOffsets) (back time.Time, sent int, err error) {
	feeder, err := t.feeder()
	if err != nil {
		return back, 0, err
	}
	before := recoveryWarm + t.variant.records
	back = time.Now()
	stop := feeder.feed(ctx, freshRate, 0, func(i int) work.Value { return stamped(work.Good, before+i) })
	err = t.begin(ctx)
	if err == nil {
		err = t.awaitCommitted(ctx, old)
	}
	if err == nil {
		err = pause(ctx, settled)
	}
	sent = before + stop()
	if closed := feeder.close(ctx); err == nil {
		err = closed
	}
	if err != nil {
		return back, sent, err
	}
	ends, _, err := t.bench.cluster.ends(ctx, t.in.topic())
	if err == nil {
		err = t.awaitCommitted(ctx, ends)
	}
	return back, sent, err
}

// write adds the records from from to below to to the input.
func (t *trial) write(ctx context.Context, from, to int) error {
	w, err := t.bench.cluster.writer(t.in.topic())
	if err != nil {
		return err
	}
	for seq := from; seq < to; seq++ {
		w.write(ctx, key(seq%feedKeys), stamped(work.Good, seq).Append(nil))
	}
	return w.close(ctx)
}

// awaitCommitted waits until the program has committed all below the ends.
func (t *trial) awaitCommitted(ctx context.Context, ends kadm.ListedOffsets) error {
	for deadline := time.Now().Add(recovered); ; {
		committed, err := t.bench.cluster.admin.FetchOffsets(ctx, t.app)
		if err != nil {
			return err
		}
		left, all := behind(ends, committed, 0)
		switch {
		case all:
			return nil
		case t.process.ended():
			return t.ended()
		case time.Now().After(deadline):
			return fault(fmt.Sprintf("has committed %d of %d records after %s", left, t.result.Records, recovered))
		}
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// freshness reads the output: when the first record came out that was written after the start, and when the last of the gap. Each of them has to
// be there, at least once.
func (t *trial) freshness(ctx context.Context, back time.Time, old, sent int) error {
	seen, n := make([]bool, sent), 0
	var wrong error
	var fresh, closed time.Time
	err := t.bench.cluster.read(ctx, t.out, func(r *kgo.Record) {
		v, err := work.Parse(r.Value)
		if err != nil || v.Seq >= sent {
			wrong = fault(fmt.Sprintf("an output is %.40q", r.Value))
			return
		}
		if seen[v.Seq] {
			return
		}
		seen[v.Seq] = true
		n++
		switch at := r.Timestamp; {
		case v.Seq < old && at.After(closed):
			closed = at
		case v.Seq >= old && (fresh.IsZero() || at.Before(fresh)):
			fresh = at
		}
	})
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return wrong
	case n != sent:
		return fault(fmt.Sprintf("%d of %d records have come out", n, sent))
	}
	f := t.result.Figures
	f[freshAfter], f[gapClosed] = fresh.Sub(back).Seconds(), closed.Sub(back).Seconds()
	return nil
}
