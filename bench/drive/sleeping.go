package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/understudy-streams/understudy/bench/work"
)

// sleeping has a program make calls that take their time, from one partition, and compares with the same sleeps without Kafka in the same
// process. What counts is from the beginning of the first call to the end of the last.
func (b *bench) sleeping(v variant) measuring {
	if b.settings.scale < 1 {
		v.records /= 5
	}
	details := []string{"sleeping", "--order", v.order, "--workers", strconv.Itoa(v.workers), "--records", strconv.Itoa(v.records),
		"--alone", strconv.Itoa(min(v.workers, v.keys))}
	return b.trial(v, 1, details, func(ctx context.Context, t *trial) error {
		t.result.Records = v.records
		if err := t.loadSleeps(ctx); err != nil {
			return err
		}
		if err := t.begin(ctx); err != nil {
			return err
		}
		serial := time.Duration(v.records) * (v.from + v.to) / 2 // as if nothing ran beside another, twice
		said, err := t.line(ctx, "SLEPT", 30*time.Second+2*serial)
		if err != nil {
			return err
		}
		t.undisturbed()
		f := t.result.Figures
		f[took], f[ideal] = said["took_us"]/1e6, said["ideal_us"]/1e6
		if used, err := t.process.cpu(); err == nil {
			f[cpuWhole] = used / float64(v.records) * 1e6
		}
		switch {
		case said["repeated"] > 0:
			return fault(fmt.Sprintf("%g records were there twice", said["repeated"]))
		case v.order == "key" && said["disordered"] > 0:
			return fault(fmt.Sprintf("%g records overtook another of their key", said["disordered"]))
		}
		return t.finish(ctx)
	})
}

// loadSleeps fills the input topic.
func (t *trial) loadSleeps(ctx context.Context) error {
	w, err := t.bench.cluster.writer(t.in.topic())
	if err != nil {
		return err
	}
	r := seeded()
	for seq := range t.variant.records {
		d := t.variant.from + time.Duration(r.Int64N(int64(t.variant.to-t.variant.from)+1))
		w.write(ctx, key(r.IntN(t.variant.keys)), work.Value{Kind: work.Sleep, Seq: seq, Number: d.Microseconds()}.Append(nil))
	}
	return w.close(ctx)
}
