package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/understudy-streams/understudy/bench/work"
)

const (
	// parkedRecords is how many records are put aside, and parkRate how many of them come a second.
	parkedRecords, quickParked = 100_000, 10_000
	parkRate                   = 20_000
	// shortest and furthest are the delays that records ask for, in milliseconds.
	shortest, furthest, quickFurthest = 10, 60_000, 5_000
	// shortBelow bounds those that an eighth of the records ask for, so that there are enough short ones to see.
	shortBelow = 1_000
)

// delays puts records aside that ask to come again after delays from 10 ms to 60 s, all mixed, and notes how late they come.
func (b *bench) delays(v variant) measuring {
	n, longest := parkedRecords, furthest
	if b.settings.scale < 1 {
		n, longest = quickParked, quickFurthest
	}
	details := []string{"failing", "--order", "none", "--records", strconv.Itoa(n)}
	return b.trial(v, partitions, details, func(ctx context.Context, t *trial) error {
		t.result.Command += " --out " + t.out
		t.result.Records = n
		if err := t.begin(ctx); err != nil {
			return err
		}
		if err := pause(ctx, settled); err != nil {
			return err
		}
		feeder, err := t.feeder()
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(2027, 3))
		feeder.feed(ctx, parkRate, n, func(i int) work.Value {
			return work.Value{Kind: work.Later, Seq: i, Number: delayOf(r, longest)}
		})
		if err := feeder.close(ctx); err != nil {
			return err
		}
		said, err := t.line(ctx, "DUE", time.Duration(longest)*time.Millisecond+time.Minute)
		if err != nil {
			return err
		}
		t.undisturbed()
		f := t.result.Figures
		f[earliest], f[dueP50], f[dueP99], f[dueLast] = said["first_us"]/1e3, said["p50_us"]/1e3, said["p99_us"]/1e3, said["last_us"]/1e3
		f[early] = said["early"]
		if said["repeated"] > 0 {
			return fault(fmt.Sprintf("%g records came back twice", said["repeated"]))
		}
		return t.finish(ctx)
	})
}

// delayOf draws one: an eighth are short, drawn evenly by their logarithm, and the others drawn evenly from all.
func delayOf(r *rand.Rand, longest int) int64 {
	if r.IntN(8) == 0 {
		return int64(shortest * math.Exp(r.Float64()*math.Log(shortBelow/shortest)))
	}
	return int64(shortest + r.IntN(longest-shortest+1))
}

const (
	// lookRate is how many good records a second pass the records that are parked.
	lookRate = 4_000
	// lookFor is how long the main path is looked at, each time.
	lookFor, quickLook = 12 * time.Second, 3 * time.Second
	// parkedFor is how long a record stays aside: until the look at the main path is over.
	parkedFor, quickParkedFor = 28 * time.Second, 9 * time.Second
)

// parked looks at the latency of good records, then parks others, looks again, lets these come back, and looks a third time: all in one process,
// so that the machine's drift does not pass for the parked records.
func (b *bench) parked(v variant) measuring {
	n, look, stay := parkedRecords, lookFor, parkedFor
	if b.settings.scale < 1 {
		n, look, stay = quickParked, quickLook, quickParkedFor
	}
	details := []string{"failing", "--order", "none", "--records", strconv.Itoa(n)}
	return b.trial(v, partitions, details, func(ctx context.Context, t *trial) error {
		t.result.Command += " --out " + t.out
		t.result.Records = n
		if err := t.begin(ctx); err != nil {
			return err
		}
		feeder, err := t.feeder()
		if err != nil {
			return err
		}
		stop := feeder.feed(ctx, lookRate, 0, func(i int) work.Value { return stamped(work.Good, i) })
		looks, err := t.threeLooks(ctx, feeder, n, look, stay)
		good := stop()
		if err := feeder.close(ctx); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		t.undisturbed()
		if err := pause(ctx, 2*time.Second); err != nil { // for the last outputs
			return err
		}
		if err := t.finish(ctx); err != nil {
			return err
		}
		return t.latencies(ctx, good, looks)
	})
}

// threeLooks are those before, while and after records are parked.
func (t *trial) threeLooks(ctx context.Context, feeder *feeder, n int, look, stay time.Duration) (looks [3]span, err error) {
	if looks[0], err = t.spend(ctx, besideWarm, look); err != nil {
		return looks, err
	}
	began := time.Now()
	feeder.feed(ctx, parkRate, n, func(i int) work.Value {
		return work.Value{Kind: work.Later, Seq: i, Number: stay.Milliseconds()}
	})
	if _, err = t.line(ctx, "ASIDE", stay); err != nil {
		return looks, err
	}
	// A commit and more, until the entries are written.
	if looks[1], err = t.spend(ctx, settled, look); err != nil {
		return looks, err
	}
	if late := time.Since(began) - stay; late > 0 {
		return looks, fmt.Errorf("the first parked records were due %s before the look was over", late)
	}
	if _, err = t.line(ctx, "DUE", stay+time.Minute); err != nil {
		return looks, err
	}
	looks[2], err = t.spend(ctx, settled, look)
	return looks, err
}

// latencies are those of the good records that were sent during the looks.
func (t *trial) latencies(ctx context.Context, good int, looks [3]span) error {
	var all [3][]time.Duration
	err := t.goodOutputs(ctx, good, func(sent, done time.Time) {
		for i, look := range looks {
			if !sent.Before(look.from) && sent.Before(look.to) {
				all[i] = append(all[i], done.Sub(sent))
			}
		}
	})
	if err != nil {
		return err
	}
	f := t.result.Figures
	without, with, after := milliseconds(quantile(all[0], .99)), milliseconds(quantile(all[1], .99)), milliseconds(quantile(all[2], .99))
	f[p99Without], f[p99] = (without+after)/2, with
	f[cores] = looks[1].used / looks[1].seconds()
	t.result.Notes = append(t.result.Notes, fmt.Sprintf("p99 before %.2f ms, with %.2f ms, after %.2f ms", without, with, after))
	return nil
}
