package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/bench/work"
)

const (
	// goodRate is how many good records come in a second; failing ones come on top of them, so that they are their share of all.
	goodRate = 4_000
	// besideWarm is left out.
	besideWarm, quickWarm = 5 * time.Second, 2 * time.Second
	quickBeside           = 6 * time.Second
	// buried is how long the last record that fails may take to be a dead letter.
	buried = 30 * time.Second
)

// beside sends good records at a pace below saturation, and among them some that always fail: those are put aside, tried four times within 0.7 s,
// and are dead letters then. The good ones come out as fast as they come in, as long as the failing ones leave them the CPU.
func (b *bench) beside(v variant) measuring {
	return b.trial(v, partitions, []string{"failing", "--order", "none"}, func(ctx context.Context, t *trial) error {
		t.result.Command += " --out " + t.out
		warm, length := besideWarm, b.settings.long
		if t.quick {
			warm, length = quickWarm, min(quickBeside, length)
		}
		if err := t.begin(ctx); err != nil {
			return err
		}
		feeder, err := t.feeder()
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(2027, 2))
		var seqs [2]int // of good and of failing ones
		stop := feeder.feed(ctx, goodRate/(1-v.failing), 0, func(int) work.Value {
			which, kind := 0, byte(work.Good)
			if r.Float64() < v.failing {
				which, kind = 1, work.Fails
			}
			seqs[which]++
			return stamped(kind, seqs[which]-1)
		})
		span, err := t.spend(ctx, warm, length)
		t.result.Records = stop()
		if err := feeder.close(ctx); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		left, err := t.awaitLetters(ctx, seqs[1])
		if err != nil {
			return err
		}
		t.result.Figures[unburied] = float64(left)
		t.undisturbed()
		if err := t.finish(ctx); err != nil {
			return err
		}
		return t.goodFigures(ctx, span, seqs)
	})
}

// span is a time that is looked at.
type span struct {
	from, to time.Time
	used     float64 // CPU seconds of the program
	machine  float64 // … and of all there is
}

func (s span) seconds() float64 { return s.to.Sub(s.from).Seconds() }

// spend lets time pass after a while that does not count, and says what was used.
func (t *trial) spend(ctx context.Context, warm, length time.Duration) (s span, err error) {
	if err := pause(ctx, warm); err != nil {
		return s, err
	}
	t.profile(true, false)
	before, err := lookAround()
	if err != nil {
		return s, err
	}
	s.from, s.used = time.Now(), -t.process.used()
	for s.to = s.from; s.to.Before(s.from.Add(length)); s.to = time.Now() {
		if err := pause(ctx, min(lookEvery, time.Until(s.from.Add(length)))); err != nil {
			return s, err
		}
		if t.process.ended() {
			return s, t.ended()
		}
	}
	after, err := lookAround()
	t.profile(false, true)
	s.used += t.process.used()
	s.machine = after.busy - before.busy
	return s, err
}

// awaitLetters waits until all records that fail are dead letters, and says how many are still none when that has taken too long.
func (t *trial) awaitLetters(ctx context.Context, want int) (left int, err error) {
	if want == 0 {
		return 0, pause(ctx, 2*time.Second)
	}
	for deadline := time.Now().Add(buried); ; {
		_, n, err := t.bench.cluster.ends(ctx, t.app+"-"+t.in.topic()+"-dlq")
		switch {
		case err != nil:
			return 0, err
		case n == int64(want), time.Now().After(deadline):
			return want - int(n), nil
		case n > int64(want):
			return 0, fault(fmt.Sprintf("%d dead letters of %d records", n, want))
		case t.process.ended():
			return 0, t.ended()
		}
		if err := pause(ctx, lookEvery); err != nil {
			return 0, err
		}
	}
}

// goodFigures reads the output: each good record has to be there once.
func (t *trial) goodFigures(ctx context.Context, s span, sent [2]int) error {
	var in, out, thirds [3]float64
	third := func(at time.Time) int { return int(at.Sub(s.from).Seconds() / s.seconds() * 3) }
	count := func(to *[3]float64, at time.Time) {
		if !at.Before(s.from) && at.Before(s.to) {
			to[min(2, third(at))]++
		}
	}
	var latencies []time.Duration
	err := t.goodOutputs(ctx, sent[0], func(sent, done time.Time) {
		count(&in, sent)
		count(&out, done)
		if !sent.Before(s.from) && sent.Before(s.to) {
			latencies = append(latencies, done.Sub(sent))
		}
	})
	if err != nil {
		return err
	}
	for i := range thirds {
		thirds[i] = out[i] / in[i]
	}
	f := t.result.Figures
	f[goodPerS] = (out[0] + out[1] + out[2]) / s.seconds()
	f[goodShare] = (out[0] + out[1] + out[2]) / (in[0] + in[1] + in[2])
	f[decay] = thirds[2] / thirds[0]
	f[p99] = milliseconds(quantile(latencies, .99))
	f[cores], f[machineCores] = s.used/s.seconds(), s.machine/s.seconds()
	f[failedPerS] = goodRate / (1 - t.variant.failing) * t.variant.failing
	return nil
}

// goodOutputs hands the times of each good record to f: when it was sent, and when its output was appended, as well as the broker tells: it counts
// whole milliseconds, of which the middle is taken.
func (t *trial) goodOutputs(ctx context.Context, want int, f func(sent, done time.Time)) error {
	seen, n := make([]bool, want), 0
	var wrong error
	err := t.bench.cluster.read(ctx, t.out, func(r *kgo.Record) {
		v, err := work.Parse(r.Value)
		switch {
		case err != nil:
			wrong = fault(fmt.Sprintf("an output is %.40q", r.Value))
		case v.Kind != work.Good:
		case v.Seq >= want || seen[v.Seq]:
			wrong = fault(fmt.Sprintf("good record %d of %d was put out twice, or never came in", v.Seq, want))
		default:
			seen[v.Seq] = true
			n++
			f(time.Unix(0, v.Number), r.Timestamp.Add(time.Millisecond/2))
		}
	})
	switch {
	case err != nil:
		return err
	case wrong != nil:
		return wrong
	case n != want:
		return fault(fmt.Sprintf("%d good records in the output, want %d", n, want))
	}
	return nil
}
