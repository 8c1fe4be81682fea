package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestInputIsTheSameEachTime(t *testing.T) {
	for _, w := range []workload{{"map", "in", 500}, {"wordcount", "lines", 500}} {
		var first, second []byte
		n := 0
		for k, v := range w.input() {
			first = append(append(first, k...), v...)
			n++
		}
		for k, v := range w.input() {
			second = append(append(second, k...), v...)
		}
		if n != 500 || !bytes.Equal(first, second) {
			t.Errorf("%s: %d records, equal: %v", w.name, n, bytes.Equal(first, second))
		}
	}
}

func TestInputIsWhatTheReadmeSays(t *testing.T) {
	for k, v := range pairs(100) {
		if len(k) != 8 || k[0] != 'k' || len(v) != valueBytes {
			t.Fatalf("key %q, value of %d bytes", k, len(v))
		}
	}
	words := map[string]int{}
	for k, v := range lines(20_000) {
		fields := strings.Fields(string(v))
		if k != nil || len(fields) != wordsPerLine {
			t.Fatalf("key %q, line %q", k, v)
		}
		for _, w := range fields {
			words[w]++
		}
	}
	most := 0
	for _, n := range words {
		most = max(most, n)
	}
	if len(words) < 10_000 || len(words) > vocabulary || most < 100*(160_000/len(words)) {
		t.Errorf("%d words, the most frequent %d times: not Zipf-like", len(words), most)
	}
}

func TestCompareCounts(t *testing.T) {
	want := map[string]int64{"a": 2, "b": 1, "c": 1}
	for _, c := range []struct {
		name      string
		got       map[string]int64
		malformed int
		why       string
	}{
		{name: "right", got: map[string]int64{"a": 2, "b": 1, "c": 1}},
		{name: "wrong", got: map[string]int64{"a": 3, "b": 0, "d": 1}, why: "of 3 keys 1 are too high, 2 too low or missing; 1 unknown keys, 0 values that are not 8 bytes"},
		{name: "malformed", got: map[string]int64{"a": 2, "b": 1, "c": 1}, malformed: 1, why: "of 3 keys 0 are too high, 0 too low or missing; 0 unknown keys, 1 values that are not 8 bytes"},
	} {
		if why := compareCounts(want, c.got, c.malformed); why != c.why {
			t.Errorf("%s: %q, want %q", c.name, why, c.why)
		}
	}
}

// at is a sample of a run that began at the zero of the clock.
func at(seconds, cpu, share float64, out int64) sample {
	return sample{at: time.Unix(0, int64(seconds*1e9)), cpu: cpu, out: out, done: progress{share: share, all: share == 1, any: share > 0}}
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		name             string
		samples          []sample
		whole, steady    float64 // CPU seconds per million
		rate, rateSteady float64
		finished         bool
	}{
		{
			name:    "steady leaves out the first quarter",
			samples: []sample{at(1, 2, 0, 0), at(2, 5, .25, 250_000), at(4, 8, 1, 1_000_000), at(6.5, 8.5, 1, 1_000_000)},
			whole:   8, steady: 4, rate: 250_000, rateSteady: 375_000, finished: true,
		},
		{
			name:    "the commit after the last output belongs to the work",
			samples: []sample{at(1, 1, .4, 400_000), at(4, 3, .4, 1_000_000), at(5, 4, 1, 1_000_000), at(6.1, 9, 1, 1_000_000)},
			whole:   4, steady: 5, rate: 250_000, rateSteady: 200_000, finished: true,
		},
		{
			name:    "too fast to tell",
			samples: []sample{at(1, 2, .9, 1_000_000), at(2, 3, 1, 1_000_000)},
			whole:   3, steady: 3, rate: 1_000_000, rateSteady: 1_000_000, finished: false,
		},
		{
			name:    "too short to tell",
			samples: []sample{at(.5, 2, .3, 300_000), at(2, 3, 1, 1_000_000)},
			whole:   3, steady: 3, rate: 500_000, rateSteady: 500_000, finished: false,
		},
		{
			name:    "no commits",
			samples: []sample{at(1, 2, 0, 500_000), at(2, 4, 0, 1_000_000), at(7, 5, 0, 1_000_000)},
			whole:   4, steady: 4, rate: 500_000, rateSteady: 500_000, finished: true,
		},
	} {
		var seen course
		for _, s := range c.samples {
			seen.add(s)
		}
		if got := seen.finished(c.samples[len(c.samples)-1]); got != c.finished {
			t.Errorf("%s: finished %v", c.name, got)
		}
		r := result{Records: 1_000_000}
		r.cost(seen, time.Unix(0, 0))
		got := [4]float64{r.CPUPerMillion, r.CPUPerMillionSteady, r.RecordsPerSecond, r.RecordsPerSecondSteady}
		if want := [4]float64{c.whole, c.steady, c.rate, c.rateSteady}; got != want {
			t.Errorf("%s: whole, steady CPU, rates %v, want %v", c.name, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	run := func(program string, round int, cpu float64, why string) result {
		return result{Program: program, Workload: "map", Round: round, Records: 5_000_000, CPUPerMillion: 2 * cpu, CPUPerMillionSteady: cpu,
			RecordsPerSecondSteady: 1e6 / cpu, PeakRSSMiB: 100, Verified: why == "", Why: why}
	}
	got := markdown([]result{
		run(ours, 1, 1, ""), run("goka", 1, 8, ""), run("franz-go", 1, 1, ""),
		run(ours, 2, 4, ""), run("goka", 2, 8, ""), run("franz-go", 2, 1, "3 records|in the output"),
		run(ours, 3, 2, ""),
	})
	want := `| workload | program | CPU s per million | CPU, whole | records/s | peak RSS, MiB | output |
|---|---|---:|---:|---:|---:|---|
| map, 5,000,000 | understudy | 2.00 | 4.00 | 500,000 | 100 | verified 3 of 3 |
| map, 5,000,000 | goka | 8.00 (4.00×) | 16.00 (4.00×) | 125,000 (0.25×) | 100 (1.00×) | verified 2 of 2 |
| map, 5,000,000 | franz-go |  |  |  |  | **failed** (round 2): 3 records/in the output |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestProcessFigures(t *testing.T) {
	p, err := start([]string{"sh", "-c", "echo hello; exec sleep 60"}, t.TempDir()+"/log")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); p.lastWords() == "" && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if cpu, err := p.cpu(); err != nil || cpu > 5 {
		t.Errorf("cpu %v, %v", cpu, err)
	}
	if rss, err := p.peakRSS(); err != nil || rss <= 0 || rss > 1000 {
		t.Errorf("peak RSS %v, %v", rss, err)
	}
	if took, err := p.stop(); err != nil || took > 20*time.Second {
		t.Errorf("stop took %s, %v", took, err)
	}
	if words := p.lastWords(); words != "hello" {
		t.Errorf("last words %q", words)
	}
}

func TestChoose(t *testing.T) {
	all := []program{{name: "a", command: []string{"sh"}}, {name: "b", command: []string{"/nowhere/b"}, workloads: []string{"map"}}}
	if chosen, err := choose(all, []string{"a"}); err != nil || len(chosen) != 1 || !chosen[0].does("count") || all[1].does("count") {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := choose(all, []string{"b"}); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Error(err)
	}
	if _, err := choose(all, []string{"c"}); err == nil || !strings.Contains(err.Error(), "there are a, b") {
		t.Error(err)
	}
}
