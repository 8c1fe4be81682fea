package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"
)

// smallHeap is the workload in which a JVM has the smallest heap that keeps its pace.
const smallHeap = "count, smallest heap"

const (
	// largestHeap is what the JVM has in the other workloads, in MiB.
	largestHeap = 2048
	// keeps is the share of its rate with the largest heap that it has to keep.
	keeps = .9
)

// heapSizes are those that are tried, MiB.
var heapSizes = []int{96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, largestHeap}

func heaps() []workload {
	return []workload{{
		name: smallHeap, does: "count", input: pairsOf(10_000_000, 100_000, partitions), programs: []string{ours, ks, goka},
		sizes: map[string]int{goka: 5_000_000},
	}}
}

// heap searches the smallest heap with which Kafka Streams keeps its rate, and measures it with that beside the others.
func (b *bench) heap(ctx context.Context, w workload, programs []program) error {
	at := slices.IndexFunc(programs, func(p program) bool { return p.name == ks })
	if at < 0 {
		return b.series(ctx, w, programs, b.measure)
	}
	full, err := b.rateWith(ctx, w, largestHeap, 0)
	if err != nil {
		return err
	}
	if full == 0 {
		return fmt.Errorf("no verified run with %d MiB", largestHeap)
	}
	size, err := smallest(heapSizes, func(size int) (bool, error) {
		if size == largestHeap {
			return true, nil
		}
		rate, err := b.rateWith(ctx, w, size, full)
		log.Printf("heap of %d MiB: %.0f %% of the rate with %d MiB", size, 100*rate/full, largestHeap)
		return rate >= keeps*full, err
	})
	if err != nil {
		return err
	}
	log.Printf("smallest heap that keeps %.0f %%: %d MiB", 100*keeps, size)
	programs[at].command = javaCommand(b.dir, size, size)
	return b.series(ctx, w, programs, func(ctx context.Context, p program, w workload, round int) (result, error) {
		r, err := b.measure(ctx, p, w, round)
		if p.name == ks && r.Figures != nil {
			r.Figures[heap] = float64(size)
		}
		return r, err
	})
}

// smallest finds the first of the ascending sizes that is enough, given that all larger ones are then; the last one is taken to be.
func smallest(sizes []int, enough func(int) (bool, error)) (int, error) {
	low, high := 0, len(sizes)-1
	for low < high {
		middle := (low + high) / 2
		ok, err := enough(sizes[middle])
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return sizes[high], nil
}

// searching is the part of the runs with which the heap is searched; no table shows them.
const searching = "search"

// rateWith is the median rate with a heap, over the rounds; 0 if a run failed or was much slower, as it is when the heap is too small.
func (b *bench) rateWith(ctx context.Context, w workload, size int, full float64) (float64, error) {
	w.name, w.part = fmt.Sprintf("heap search, %d MiB", size), searching
	if err := b.results.forget(w.name); err != nil {
		return 0, err
	}
	impatient, settings := *b, *b.settings
	if full > 0 {
		settings.timeout = 30*time.Second + time.Duration(3*float64(w.input.records)/full*float64(time.Second))
	}
	impatient.settings = &settings
	p, left := program{ks, javaCommand(b.dir, min(size, 1024), size)}, b.settings.repeats
	for round := range b.settings.rounds {
		r, err := impatient.turn(ctx, p, w, round+1, impatient.measure, &left)
		if err != nil || r.failed() {
			return 0, err
		}
	}
	v, _ := b.results.cell(w.name, ks).median(rate)
	return v, nil
}
