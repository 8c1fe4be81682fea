package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/understudy-streams/understudy/bench/work"
)

func TestNumbersIn(t *testing.T) {
	text := []byte("WARN\tDUE n=1\nDUE records=12 first_us=-3 early=0\nDUE records=13\nSLEPT took_us=5")
	got, ok := numbersIn(text, "DUE")
	if !ok || got["records"] != 12 || got["first_us"] != -3 || len(got) != 3 {
		t.Errorf("%v, %v", got, ok)
	}
	if got, ok := numbersIn(text, "SLEPT"); ok {
		t.Errorf("%v of half a line", got)
	}
}

func TestDelayOf(t *testing.T) {
	r, short := rand.New(rand.NewPCG(1, 1)), 0
	const n = 10_000
	for range n {
		switch d := delayOf(r, furthest); {
		case d < shortest || d > furthest:
			t.Fatalf("a delay of %d ms", d)
		case d <= shortBelow:
			short++
		}
	}
	if short < n/10 || short > n/6 {
		t.Errorf("%d of %d are short, want about one in seven", short, n)
	}
}

func TestLegal(t *testing.T) {
	if got := legal("calls of 0–5 ms, 50 % kafka-streams"); got != "calls-of-05-ms-50--kafka-streams" {
		t.Error(got)
	}
}

func TestPartsOfTwoTablesAreNotMeasuredTogether(t *testing.T) {
	s := &settings{scale: 1}
	for names, ok := range map[string]bool{"compare,heap": true, "rebalance,rebalance-more": true, "failure": true, "failure,compare": false, "rebalance,failure": false} {
		if err := s.check(strings.Split(names, ",")); (err == nil) != ok {
			t.Errorf("%s: %v", names, err)
		}
	}
}

func TestEveryFailureRowHasItsWorkload(t *testing.T) {
	known := []string{policyCost, holeMap}
	for _, w := range failures() {
		known = append(known, w.name)
	}
	for _, row := range failureRows() {
		if !slices.Contains(known, row.workload) {
			t.Errorf("nobody measures %q", row.workload)
		}
	}
}

func TestFailureTable(t *testing.T) {
	r := &results{file: filepath.Join(t.TempDir(), "failure.jsonl")}
	add := func(workload, variant string, figures map[figure]float64, change func(*result)) {
		one := result{Part: failurePart, Workload: workload, Program: variant, Round: 1, Scale: 1, Records: 1000, Figures: figures, Verified: true}
		if change != nil {
			change(&one)
		}
		if err := r.add(one); err != nil {
			t.Fatal(err)
		}
	}
	add(unordered, ours, map[figure]float64{took: 1.6, ideal: 1.568}, nil)
	add(unordered, sarama, map[figure]float64{took: 2, ideal: 1.6}, nil)
	add(unordered, pc, nil, func(r *result) { r.Verified, r.Why = false, "lost | some" })
	add(oneKey, ours, map[figure]float64{took: 1.1, ideal: 1}, nil)
	add(besideFailing, level(0), map[figure]float64{goodPerS: 4000, cores: .1}, nil)
	add(besideFailing, level(.5), map[figure]float64{goodPerS: 3900, cores: .5, failedPerS: 4000, decay: .2}, func(r *result) { r.Disturbed = true })
	add(whole, ours, map[figure]float64{cpu: 1}, nil)
	add(policyCost, ours, map[figure]float64{more("Parallel"): 30}, nil)
	table := r.failureMarkdown()
	for _, row := range []string{
		"| " + unordered + " | rate ÷ that of the same sleeps without Kafka | 0.980 | 0.800 | **failed** | ≥ 0.95 | reached |",
		"| 1.100 |  |  | ≤ 1.03 | **missed** |",
		"| 50 % failing: rate of the good ones ÷ rate without | 0.975 ~ |  |  | ≥ 0.9 | reached ~ |",
		"| 50 % failing: CPU µs a failed record | 100.00 ~ |  |  |  |  |",
		"| 50 % failing: their rate in the last third ÷ in the first | 0.200 ~ |  |  | ≥ 0.9 | **missed** ~ |",
		"| 10 % failing: rate of the good ones ÷ rate without |  |  |  | ≥ 0.95 | not measured |",
		"| Parallel: CPU ÷ that with Stop, of the whole map | 1.030 |  |  | ≤ 1.02 | **missed** |",
		"**failed**, round 1: lost / some",
	} {
		if !strings.Contains(table, row) {
			t.Errorf("no %s in\n%s", row, table)
		}
	}
}

func TestFailureFigures(t *testing.T) {
	policy, holes := failureFigures(benchmarkLines([]byte(`
BenchmarkPolicies-2   500  3962814 ns/op  0 KeyOrdered-allocs/record  0.55 KeyOrdered-ns/record  0 Parallel-allocs/record  -2.8 Parallel-ns/record
BenchmarkMetadata/encode,_0.001_open-2   20  10976 ns/op  76.00 characters
BenchmarkMetadata/encode,_0.25_open-2    20  71119 ns/op  3612 characters
BenchmarkMetadata/parse,_0.25_open-2     20  1074753 ns/op
BenchmarkWidest-2   1  1189822812 ns/op  26496 records-wide
`)))
	if policy[more("Parallel")] != -2.8 || policy[more("KeyOrdered")] != .55 || len(policy) != 4 {
		t.Error(policy)
	}
	if holes[widest] != 26496 || holes[encoding] != 71.119 || len(holes) != 2 {
		t.Error(holes)
	}
}

func TestFeedKeepsItsPace(t *testing.T) {
	w, err := (&cluster{brokers: "127.0.0.1:1"}).writer("nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer w.client.Close()
	f := &feeder{writer: w}
	began := time.Now()
	sent, err := f.pace(t.Context(), 1000, 50, func(i int) work.Value { return stamped(work.Good, i) })
	if took := time.Since(began); err != nil || sent != 50 || took < 45*time.Millisecond {
		t.Errorf("%d in %s, %v", sent, took, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	if sent, err = f.pace(ctx, 1000, 0, func(i int) work.Value { return stamped(work.Good, i) }); err != nil || sent == 0 || sent > int(time.Since(began).Milliseconds()) {
		t.Errorf("%d in 50 ms, %v", sent, err)
	}
}
