package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// ran is a verified run of map.
func ran(program string, round int, us float64) result {
	return result{Part: "compare", Workload: "map", Program: program, Round: round, Records: 5_000_000, Scale: 1, Verified: true, OtherCores: .01,
		Figures: map[figure]float64{cpu: us, cpuWhole: 2 * us, rate: 1e6 / us, rss: 100}}
}

func TestTable(t *testing.T) {
	disturbed := ran(ours, 2, 50)
	disturbed.Disturbed, disturbed.OtherCores = true, 1
	void := result{Part: "compare", Workload: "map", Program: ks, Round: 1, Scale: 1, Void: "no answer"}
	wrong := ran(goka, 2, 8)
	wrong.Verified, wrong.Why = false, "3 records|in the output"
	busy := ran(sarama, 1, 4)
	busy.Disturbed = true
	r := results{all: []result{ran(ours, 1, 1), disturbed, ran(ours, 2, 2), ran(ours, 3, 4), void, ran(ks, 1, 12), ran(franz, 1, 3), ran(goka, 1, 8), wrong, busy}}
	got := r.markdown()
	want := `| workload | figure | understudy | floor | franz-go | sarama | kafka-streams | goka | ratio | to reach | |
|---|---|---:|---:|---:|---:|---:|---:|---|---|---|
| map | CPU µs/record | 2.00 |  | 3.00 | 4.00 ~ | 12.00 | **failed** | 0.67× franz-go, 0.50× sarama, 0.17× kafka-streams | ≤ 0.65× franz-go, ≤ 0.2× kafka-streams | **missed** (franz-go), reached (kafka-streams) |
| map | CPU µs/record, whole run | 4.00 |  | 6.00 | 8.00 ~ | 24.00 | **failed** | 0.67× franz-go, 0.50× sarama, 0.17× kafka-streams |  |  |
| map | records/s | 500,000 |  | 333,333 | 250,000 ~ | 83,333 | **failed** | 1.50× franz-go, 2.00× sarama, 6.00× kafka-streams | ≥ 1.2× franz-go | reached |
| map | peak RSS, MiB | 100 |  | 100 | 100 ~ | 100 | **failed** | 1.00× franz-go, 1.00× sarama, 1.00× kafka-streams |  |  |
| map | updates out |  |  |  |  |  | **failed** |  |  |  |

| workload | program | records | runs used | thrown out | other programs, cores | |
|---|---|---:|---:|---:|---:|---|
| map | understudy | 5,000,000 | 3 | 1 | ≤ 0.01 |  |
| map | franz-go | 5,000,000 | 1 | 0 | ≤ 0.01 |  |
| map | sarama | 5,000,000 | 1 | 0 | ≤ 0.01 | ~ all were disturbed, used all the same |
| map | kafka-streams | 5,000,000 | 1 | 1 | ≤ 0.01 |  |
| map | goka | 5,000,000 | 1 | 0 | ≤ 0.01 | **failed**, round 2: 3 records/in the output |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsNotMeasuredIsNotReached(t *testing.T) {
	r := results{all: []result{ran(ours, 1, 1)}}
	if _, _, word := r.judge("map", rate); word != "not measured" {
		t.Error(word)
	}
	wrong := ran(ours, 1, 1)
	wrong.Verified = false
	r = results{all: []result{wrong, ran(franz, 1, 10)}}
	if _, _, word := r.judge("map", rate); word != "not measured" {
		t.Error(word)
	}
}

func TestGrowthTable(t *testing.T) {
	one := ran(ours, 1, 2)
	one.Part, one.Workload = "growth", "count, 10 keys"
	got := (&results{all: []result{one}}).markdown()
	if !strings.Contains(got, "\n| count, 10 keys | 2.00 | 4.00 | 500,000 | 100 |  |\n") {
		t.Error(got)
	}
}

func TestResultsOutliveTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	r, err := openResults(file)
	if err != nil {
		t.Fatal(err)
	}
	other := ran(ours, 1, 1)
	other.Workload = "count"
	for _, one := range []result{ran(ours, 1, 1), other, ran(franz, 1, 3)} {
		if err := r.add(one); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = openResults(file); err != nil || len(r.all) != 3 || r.all[2].Figures[cpu] != 3 {
		t.Fatalf("%v, %v", r.all, err)
	}
	if err := r.forget("map"); err != nil { // it is measured anew
		t.Fatal(err)
	}
	if r, err = openResults(file); err != nil || len(r.all) != 1 || r.all[0].Workload != "count" {
		t.Fatalf("%v, %v", r.all, err)
	}
}

func TestALookIsSaid(t *testing.T) {
	one := ran(ours, 1, 1)
	if got := (&results{all: []result{one}}).markdown(); strings.Contains(got, "look") {
		t.Error(got)
	}
	one.Scale = .03
	if got := (&results{all: []result{one}}).markdown(); !strings.HasPrefix(got, "**Only a look") {
		t.Error(got)
	}
}

func TestWhatWasDisturbedIsMarkedInTheVerdict(t *testing.T) {
	peer := ran(franz, 1, 10)
	peer.Disturbed = true
	r := results{all: []result{ran(ours, 1, 1), peer}}
	if _, _, word := r.judge("map", rate); word != "reached ~" {
		t.Error(word)
	}
}
