package main

import (
	"strings"
	"testing"
)

func TestRebalanceGoalsAreThoseThatWereSet(t *testing.T) {
	names := map[string]bool{assigning: true}
	for _, w := range reshuffles() {
		names[w.name] = true
	}
	for _, g := range rebalanceGoals {
		if !names[g.workload] {
			t.Errorf("goal of a scenario that is not there: %q", g.workload)
		}
		if _, ok := rebalanceTitles[g.figure]; !ok {
			t.Errorf("goal of a figure that the table has not: %q", g.figure)
		}
	}
	want := map[figure]string{
		beyond: "≤ 6 ≤ 6 ", moving: "≤ 0.3 ≤ 0.3× kafka-streams ≤ 0.3 ≤ 0.3× kafka-streams ≤ 0.3 ≤ 0.3× kafka-streams ≤ 1 ",
		stayingAbove: "≤ 0.1 ≤ 0.1 ≤ 0.1 ≤ 0.1 ", roundsBeyond: "≤ 2 ≤ 2 ", pauses: "≤ 0 ≤ 0 ≤ 0 ≤ 0 ", coldRestores: "≤ 0 ≤ 0 ≤ 0 ≤ 0 ",
		dead: "≤ 6.4 ", survivor: "≤ 0.1 ", assignTime: "≤ 200 ", assignMemory: "≤ 50 ", metadataBytes: "≤ 500 ",
	}
	got := map[figure]string{}
	for _, g := range rebalanceGoals {
		got[g.figure] += g.String() + " "
	}
	for f, text := range want {
		if got[f] != text {
			t.Errorf("%s: %q, want %q", f, got[f], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("goals for %d figures, want %d", len(got), len(want))
	}
}

// measured is a run of a scenario that went well.
func measured(scenario, program string, figures map[figure]float64) result {
	return result{Part: "rebalance", Workload: scenario, Program: program, Round: 1, Records: 1_000_000, Scale: 1, Verified: true, Figures: figures}
}

func TestRebalanceTable(t *testing.T) {
	wrong := measured(killOne, ours, nil)
	wrong.Verified, wrong.Why = false, "of 10 keys 3 are too low | or missing"
	disturbed := measured(drainOne, ours, map[figure]float64{stayingAbove: .2})
	disturbed.Disturbed = true
	lacking := measured(rolling, ours, map[figure]float64{moving: .9, coldRestores: 0})
	lacking.Notes = []string{"restart a: partition 0 a", "restart a: not balanced in time"}
	r := &results{all: []result{
		measured(oneJoins, ours, map[figure]float64{firstTask: 9, learnt: 4, beyond: 5, moving: .2, roundsBeyond: 3}),
		measured(oneJoins, ks, map[figure]float64{firstTask: 69, moving: .5, coldRestores: 4}),
		wrong, measured(killOne, ks, map[figure]float64{dead: 7.5}), disturbed, lacking,
		measured(assigning, ours, map[figure]float64{assignTime: 42}),
	}}
	text := r.rebalanceMarkdown()
	for _, line := range []string{
		"| one joins, cold | first task at its new owner after, s | 9.00 | 69.00 | 0.13× |  |  |",
		"| one joins, cold | … and all else took, s | 5.00 |  |  | ≤ 6 | reached |",
		"| one joins, cold | longest silence of a partition that moves or is restarted, s | 0.200 | 0.500 | 0.40× | ≤ 0.3 and ≤ 0.3× kafka-streams | **missed** |",
		"| one joins, cold | … not begun because learners were ready | 3 |  |  | ≤ 2 | **missed** |",
		"| one joins, cold | cold restores of active tasks |  | 4 |  | ≤ 0 | not measured |",
		"| kill -9 of one of two, one standby | longest silence of the dead one's partitions, s | **failed** | 7.500 |  | ≤ 6.4 | **missed** |",
		"| one of three drains | … of one that stays, above that, s | 0.200 ~ |  |  | ≤ 0.1 | **missed** ~ |",
		"| one of three drains | longest silence of a partition that moves or is restarted, s |  |  |  | ≤ 0.3 and ≤ 0.3× kafka-streams | not measured ~ |",
		"| rolling restart of three, one standby | cold restores of active tasks | 0 |  |  | ≤ 0 | reached |",
		"| 5,000 tasks, 200 members, two standbys | assign time, slowest case, ms | 42.00 |  |  | ≤ 200 | reached |",
		"**failed**, round 1: of 10 keys 3 are too low / or missing |",
		"1 of 1 runs used; restart a: not balanced in time |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "Only a look") {
		t.Error("this is no look")
	}
}

func TestAssignFigures(t *testing.T) {
	f := assignFigures(benchmarkLines([]byte(`goos: linux
BenchmarkAssign/cold-2         	       5	  42000000 ns/op	 4700000 B/op	    1200 allocs/op
BenchmarkAssign/one_joins-2    	       5	  30000000 ns/op	 5100000 B/op	    1200 allocs/op
BenchmarkMetadata-2            	       5	  90000000 ns/op	  412345 wire-bytes	 99999999 B/op	    1200 allocs/op
PASS
`)))
	if f[assignTime] != 42 || f[assignMemory] != 5.1 || f[metadataBytes] != 412.345 {
		t.Errorf("%v", f)
	}
	if f := assignFigures(benchmarkLines([]byte("PASS\nok\n"))); len(f) != 0 {
		t.Errorf("figures of nothing: %v", f)
	}
}
