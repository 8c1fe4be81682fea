package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measuring is one way to measure a program.
type measuring func(ctx context.Context, p program, w workload, round int) (result, error)

// series measures all programs of a workload, in turns within a round, because the machine's speed drifts; each round begins with the next one.
// A run that was disturbed, or of which the harness could not tell anything, stays on record and is repeated, so often at most in all rounds of a
// program together.
func (b *bench) series(ctx context.Context, w workload, programs []program, one measuring) error {
	if err := b.results.forget(w.name); err != nil {
		return err
	}
	left := map[string]*int{}
	for round := range b.settings.rounds {
		for i := range programs {
			p := programs[(round+i)%len(programs)]
			if left[p.name] == nil {
				repeats := b.settings.repeats
				left[p.name] = &repeats
			}
			if _, err := b.turn(ctx, p, w, round+1, one, left[p.name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmUp lets a program run once before anything is measured: the broker compiles its code in the first run of a sitting, which takes up to twice as
// long as the next ones.
func (b *bench) warmUp(ctx context.Context, w workload, p program) error {
	if b.warm {
		return nil
	}
	b.warm = true
	r, err := b.measure(ctx, p, w, 0)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		log.Printf("to warm up: %v", err) // what is in the way then is so in the first run that counts, which says it
	} else {
		log.Printf("%v (to warm up, not counted)", r)
	}
	return nil
}

// turn measures a program, again while there are repeats left and the run tells nothing.
func (b *bench) turn(ctx context.Context, p program, w workload, round int, one measuring, left *int) (result, error) {
	for {
		r, err := b.guarded(ctx, p, w, round, one)
		if err != nil || !r.thrownOut() || *left == 0 {
			return r, err
		}
		*left--
	}
}

// guarded measures once and keeps the result. Trouble of the harness makes the run void and does not end the others, as long as there is a broker.
func (b *bench) guarded(ctx context.Context, p program, w workload, round int, one measuring) (result, error) {
	r, err := one(ctx, p, w, round)
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		if b.settings.brokerPID > 0 && syscall.Kill(b.settings.brokerPID, 0) != nil {
			return r, fmt.Errorf("the broker has died: %w", err)
		}
		r.Part, r.Workload, r.Program, r.Round = w.part, w.name, p.name, round
		r.At, r.Scale, r.Void, r.Verified = time.Now(), b.settings.scale, err.Error(), false
	}
	log.Print(r)
	return r, b.results.add(r)
}

// parts measures parts of the benchmark, one after the other.
func (b *bench) parts(ctx context.Context, names []string) error {
	for _, name := range names {
		all, err := part(name, b.settings.scale)
		if err != nil {
			return err
		}
		for _, w := range all {
			if !listed(b.settings.workloads, ";", w.name) {
				continue
			}
			if w.trouble != nil {
				if err := b.misfortune(ctx, w); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				continue
			}
			programs, err := b.contenders(w)
			if err != nil {
				return err
			}
			switch name {
			case "restore":
				err = b.restore(ctx, w, programs)
			case "heap":
				err = b.heap(ctx, w, programs)
			case "rebalance", "rebalance-more":
				err = b.series(ctx, w, programs, b.reshuffle)
			default:
				if err = b.warmUp(ctx, w, programs[0]); err == nil {
					err = b.series(ctx, w, programs, b.measure)
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
		if err := b.cluster.unload(ctx); err != nil {
			log.Printf("topics are left: %v", err)
		}
	}
	return nil
}

// listed says whether the name is in the list; all are in an empty one.
func listed(list, separator, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, separator), name)
}

// contenders are the programs that do the workload and are asked for, in the workload's order.
func (b *bench) contenders(w workload) ([]program, error) {
	var names []string
	for _, name := range w.programs {
		if listed(b.settings.programs, ",", name) {
			names = append(names, name)
		}
	}
	return choose(contenders(b.dir), names)
}
