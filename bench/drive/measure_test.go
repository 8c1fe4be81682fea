package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is a sample of a run that began at the zero of the clock.
func at(seconds, cpu, share float64, out int64) sample {
	return sample{at: time.Unix(0, int64(seconds*1e9)), cpu: cpu, out: out, done: progress{share: share, all: share == 1, any: share > 0}}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		name             string
		samples          []sample
		whole, steady    float64 // CPU microseconds a record
		rate, rateSteady float64
		finished         bool
	}{
		{
			name:    "steady leaves out the first quarter",
			samples: []sample{at(1, 2, 0, 0), at(2, 5, .25, 250_000), at(4, 8, 1, 1_000_000), at(6.5, 8.5, 1, 1_000_000)},
			whole:   8, steady: 4, rateSteady: 375_000, finished: true,
		},
		{
			name:    "the commit after the last output belongs to the work",
			samples: []sample{at(1, 1, .4, 400_000), at(4, 3, .4, 1_000_000), at(5, 4, 1, 1_000_000), at(6.1, 9, 1, 1_000_000)},
			whole:   4, steady: 5, rateSteady: 200_000, finished: true,
		},
		{
			name:    "too fast to tell",
			samples: []sample{at(1, 2, .9, 1_000_000), at(1.5, 3, 1, 1_000_000)},
			whole:   3, steady: 3, rateSteady: 1_000_000, finished: false,
		},
		{
			name:    "too short to tell",
			samples: []sample{at(.5, 2, .3, 300_000), at(2, 3, 1, 1_000_000)},
			whole:   3, steady: 3, rateSteady: 500_000, finished: false,
		},
		{
			name:    "no commits",
			samples: []sample{at(1, 2, 0, 500_000), at(2, 4, 0, 1_000_000), at(7, 5, 0, 1_000_000)},
			whole:   4, steady: 4, rateSteady: 500_000, finished: true,
		},
	} {
		var seen course
		quarters := 0
		for _, s := range c.samples {
			if seen.add(s) {
				quarters++
			}
		}
		if got := seen.finished(c.samples[len(c.samples)-1]); got != c.finished || quarters > 1 {
			t.Errorf("%s: finished %v, %d quarters", c.name, got, quarters)
		}
		r := result{Records: 1_000_000, Figures: map[figure]float64{}}
		seen.figures(&r, time.Unix(0, 0))
		got := [3]float64{r.Figures[cpuWhole], r.Figures[cpu], r.Figures[rate]}
		if want := [3]float64{c.whole, c.steady, c.rateSteady}; got != want {
			t.Errorf("%s: whole, steady CPU, rate %v, want %v", c.name, got, want)
		}
	}
}

// bedded is a bench without a broker.
func bedded(t *testing.T) *bench {
	r, err := openResults(filepath.Join(t.TempDir(), "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return &bench{results: r, settings: &settings{rounds: 2, repeats: 2}}
}

func TestProgramsTakeTurnsAndRepeatWhatTellsNothing(t *testing.T) {
	b := bedded(t)
	var order []string
	err := b.series(context.Background(), workload{name: "w", part: "p"}, []program{{name: "a"}, {name: "b"}},
		func(_ context.Context, p program, w workload, round int) (result, error) {
			order = append(order, p.name)
			r := result{Part: w.part, Workload: w.name, Program: p.name, Round: round, Verified: true, Disturbed: p.name == "b"}
			if p.name == "a" && len(order) == 1 {
				return r, errors.New("no answer")
			}
			return r, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	// a is void once; b, with which the second round begins, is always disturbed, and repeated twice in all
	if got := strings.Join(order, ""); got != "aabbbba" {
		t.Error(got)
	}
	if a, bb := b.results.cell("w", "a"), b.results.cell("w", "b"); a.runs != 3 || a.thrownOut != 1 || len(a.used) != 2 || bb.runs != 4 || !bb.disturbed {
		t.Errorf("%+v %+v", a, bb)
	}
}

func TestWhatFailsIsNotRepeated(t *testing.T) {
	b := bedded(t)
	runs := 0
	err := b.series(context.Background(), workload{name: "w", part: "p"}, []program{{name: "a"}},
		func(_ context.Context, p program, w workload, round int) (result, error) {
			runs++
			return result{Part: w.part, Workload: w.name, Program: p.name, Round: round, Disturbed: true, Why: "wrong"}, nil
		})
	if c := b.results.cell("w", "a"); err != nil || runs != 2 || c.failed != "round 2: wrong" {
		t.Errorf("%d runs, %q, %v", runs, c.failed, err)
	}
}

func TestTheEndOfTheUserEndsTheSeries(t *testing.T) {
	b := bedded(t)
	ctx, cancel := context.WithCancel(context.Background())
	err := b.series(ctx, workload{name: "w"}, []program{{name: "a"}}, func(context.Context, program, workload, int) (result, error) {
		cancel()
		return result{}, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || len(b.results.all) != 0 {
		t.Errorf("%v, %v", err, b.results.all)
	}
}

func TestTheEndOfTheBrokerEndsTheSeries(t *testing.T) {
	b := bedded(t)
	b.settings.brokerPID = 1 << 30 // more than Linux gives
	err := b.series(context.Background(), workload{name: "w"}, []program{{name: "a"}}, func(context.Context, program, workload, int) (result, error) {
		return result{}, errors.New("connection refused")
	})
	if err == nil || !strings.Contains(err.Error(), "the broker has died") {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	all := []program{{name: "a", command: []string{"sh"}}, {name: "b", command: []string{"/nowhere/b"}}}
	if chosen, err := choose(all, []string{"a"}); err != nil || len(chosen) != 1 {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := choose(all, []string{"b"}); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Error(err)
	}
	if _, err := choose(all, []string{"c"}); err == nil || !strings.Contains(err.Error(), "there are a, b") {
		t.Error(err)
	}
	for _, w := range comparison() {
		for _, name := range w.programs {
			if !slices.ContainsFunc(contenders(""), func(p program) bool { return p.name == name }) {
				t.Errorf("%s needs %s, which is not there", w.name, name)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	s := &settings{guarantee: "alos", threads: 2, commit: time.Second, cache: 64 << 20}
	line := func(w workload) string { return strings.Join(s.arguments(w, w.input, "b:1", "app", "/s"), " ") }
	w := workload{does: "count", input: pairsOf(5, 3, 8)}
	if got := line(w); got != "count --brokers b:1 --in in-pairs-5-3-8 --app app --state /s --guarantee alos --threads 2 --commit-ms 1000 --cache 67108864" {
		t.Error(got)
	}
	w.each, w.commit = true, 100*time.Millisecond
	if got := line(w); !strings.HasSuffix(got, "--commit-ms 100 --cache 0") {
		t.Error(got)
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, c := range []struct {
		s    settings
		ok   bool
		part string
	}{
		{settings{scale: 1}, true, "compare"},
		{settings{scale: 1, workloads: "map;count, paced", programs: "goka,franz-go"}, true, "compare"},
		{settings{scale: 1, workloads: "map,count"}, false, "compare"},
		{settings{scale: 1, programs: "franz"}, false, "compare"},
		{settings{scale: 1, workloads: "map"}, false, "restore"},
		{settings{scale: 1}, false, "nothing"},
	} {
		if err := c.s.check([]string{c.part}); (err == nil) != c.ok {
			t.Errorf("%s, %q, %q: %v", c.part, c.s.workloads, c.s.programs, err)
		}
	}
}
