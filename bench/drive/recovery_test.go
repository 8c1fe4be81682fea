package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryRecoveryRowHasItsWorkload(t *testing.T) {
	var known []string
	for _, w := range recoveries() {
		known = append(known, w.name)
	}
	for _, row := range recoveryRows() {
		if !slices.Contains(known, row.workload) {
			t.Errorf("nobody measures %q", row.workload)
		}
	}
}

func TestRecoveryTable(t *testing.T) {
	r := &results{file: filepath.Join(t.TempDir(), "recovery.jsonl")}
	add := func(workload, variant string, figures map[figure]float64) {
		one := result{Part: recoveryPart, Workload: workload, Program: variant, Round: 1, Scale: 1, Records: 1000, Figures: figures, Verified: true}
		if err := r.add(one); err != nil {
			t.Fatal(err)
		}
	}
	for way, seconds := range map[string][2]float64{ours: {.5, .55}, onOnePath: {.5, 3}, ks: {4, 9}} {
		add(freshFirst, behindBy(way, 100), map[figure]float64{freshAfter: seconds[0], gapClosed: 1})
		add(freshFirst, behindBy(way, 1_000_000), map[figure]float64{freshAfter: seconds[1], gapClosed: 3})
	}
	add(gapOfWaits, ours, map[figure]float64{gapClosed: 4})
	add(gapOfWaits, onOnePath, map[figure]float64{gapClosed: 5})
	text := r.recoveryMarkdown()
	for _, line := range []string{
		"| | figure | understudy | understudy, serial | kafka-streams | to reach | |",
		"| first fresh result after kill -9 | lag 1,000,000: s | 0.550 | 3.000 | 9.000 |  |  |",
		"| first fresh result after kill -9 | at the largest lag ÷ at the smallest | 1.100 | 6.000 | 2.250 | ≤ 1.2 | reached |",
		"| a gap whose records wait 1 ms each | the same ÷ that of serial catch-up | 0.800 | 1.000 |  | ≤ 0.6 | **missed** |",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}
