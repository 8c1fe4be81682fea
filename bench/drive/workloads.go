package main

import (
	"fmt"
	"time"
)

// The programs, by the names that tables and flags have for them. Ours is what the others are compared with.
const (
	ours   = "understudy"
	floor  = "floor"
	franz  = "franz-go"
	sarama = "sarama"
	ks     = "kafka-streams"
	goka   = "goka"
)

// workload is one piece of work: its input, and with it what the output has to be (verify.go).
type workload struct {
	name     string // of its rows in the table
	part     string // of the benchmark: compare, latency ...
	does     string // what a program is told: map, count, wordcount or keep
	programs []string
	input    input
	// sizes are the records of programs for which the whole would take minutes, or that would be through before they are steady. Figures are
	// per record.
	sizes  map[string]int
	paced  int           // records a second, produced while the program runs; 0: all is there before
	commit time.Duration // 0: as the settings say
	each   bool          // no cache: each update goes out
	stamps bool          // topics have the broker's append times
	start  bool          // what counts is the first output
	// shuffle is what happens to the group of programs; nil where one program runs by itself.
	shuffle *shuffle
	// trouble is what goes wrong in the failure benchmark; nil elsewhere.
	trouble *trouble
}

// of is the input for a program.
func (w workload) of(program string) input {
	in := w.input
	if n, ok := w.sizes[program]; ok {
		in.records = n
	}
	return in
}

const partitions = 8

// scale shrinks a workload for a look.
func (w workload) scale(by float64) workload {
	if by == 1 {
		return w
	}
	if w.trouble != nil {
		return w // it has sizes of its own for a look
	}
	if w.shuffle != nil {
		w.input.keys = max(leastKeys, int(float64(w.input.keys)*by))
		w.input.records = w.input.keys // each once
		return w
	}
	least := 60_000
	if w.input.kind == "lines" {
		least = 15_000
	}
	if w.paced > 0 {
		least = 6 * w.paced
	}
	shrink := func(n int) int { return min(n, max(least, int(float64(n)*by))) }
	w.input.records = shrink(w.input.records)
	sizes := map[string]int{}
	for p, n := range w.sizes {
		sizes[p] = shrink(n)
	}
	w.sizes = sizes
	return w
}

func pairsOf(records, keys int, partitions int32) input {
	return input{kind: "pairs", records: records, keys: keys, partitions: partitions}
}

// comparison is the work of the big table.
func comparison() []workload {
	in := pairsOf(10_000_000, 100_000, partitions)
	return []workload{
		{
			name: "map", does: "map", input: in, programs: []string{ours, floor, franz, sarama, ks, goka},
			sizes: map[string]int{sarama: 1_000_000, goka: 1_000_000},
		},
		{
			name: "count", does: "count", input: in, programs: []string{ours, floor, ks, goka},
			sizes: map[string]int{ours: 20_000_000, floor: 20_000_000, goka: 1_500_000},
		},
		{name: "count, paced", does: "count", input: pairsOf(6_000_000, 100_000, partitions), paced: 100_000, programs: []string{ours, ks}},
		{
			name: "count, each update", does: "count", each: true, input: in, programs: []string{ours, goka},
			sizes: map[string]int{goka: 1_000_000},
		},
		{
			name: "wordcount", does: "wordcount", input: input{kind: "lines", records: 2_000_000, partitions: partitions}, programs: []string{ours, ks, goka},
			sizes: map[string]int{goka: 100_000},
		},
	}
}

// restoring is the work of which the restore is measured: 2 M rows of 100 bytes.
func restoring() []workload {
	return []workload{{name: "restore", does: "keep", input: input{kind: "distinct", records: 2_000_000, partitions: partitions}, programs: []string{ours, ks, goka}}}
}

// latencies are paced at what any program can do, so that only its ways are measured.
func latencies() []workload {
	in := pairsOf(120_000, 100_000, partitions)
	var all []workload
	for _, does := range []string{"map", "count"} {
		all = append(all, workload{name: "latency of " + does, does: does, input: in, paced: 10_000, commit: 100 * time.Millisecond, stamps: true, programs: []string{ours, ks}})
	}
	return all
}

func starts() []workload {
	return []workload{{name: "start", does: "map", start: true, input: pairsOf(100_000, 100_000, partitions), programs: []string{ours, franz, ks}}}
}

// growing is the same count by number of keys and of partitions.
func growing() []workload {
	var all []workload
	add := func(keys int, partitions int32) {
		all = append(all, workload{
			name: fmt.Sprintf("count, %s keys, %d partitions", thousands(float64(keys)), partitions), does: "count",
			input: pairsOf(20_000_000, keys, partitions), programs: []string{ours},
		})
	}
	for _, keys := range []int{10_000, 1_000_000, 10_000_000} {
		add(keys, partitions)
	}
	for _, p := range []int32{1, 8, 64, 256} {
		add(100_000, p)
	}
	return all
}

// parts are what the benchmark consists of, by name. The four of everything are in `make bench`, rebalance is `make bench-rebalance`, failure `make bench-failure`,
// recovery `make bench-recovery`.
var parts = map[string]func() []workload{
	"compare": comparison, "restore": restoring, "latency": latencies, "start": starts, "growth": growing, "heap": heaps,
	"rebalance": reshuffles, "rebalance-more": moreReshuffles, failurePart: failures, recoveryPart: recoveries,
}

// everything is what is run when nothing is named, in order.
var everything = []string{"compare", "restore", "latency", "start"}

// part is the work of a part, at its scale.
func part(name string, scale float64) ([]workload, error) {
	make, ok := parts[name]
	if !ok {
		return nil, fmt.Errorf("no part %q; there are compare, restore, latency, start, growth, heap, rebalance, rebalance-more, failure and recovery", name)
	}
	all := make()
	for i := range all {
		all[i] = all[i].scale(scale)
		all[i].part = name
	}
	return all, nil
}
