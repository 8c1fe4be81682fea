package main

import "testing"

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		goal      goal
		our, peer float64
		reached   bool
		says      string
	}{
		{goal{peer: "a", bound: .5}, 1, 2, true, "≤ 0.5× a"},
		{goal{peer: "a", bound: .5}, 1.01, 2, false, "≤ 0.5× a"},
		{goal{peer: "a", bound: 1.2, atLeast: true}, 12, 10, true, "≥ 1.2× a"},
		{goal{peer: "a", bound: 1.2, atLeast: true}, 11.9, 10, false, "≥ 1.2× a"},
		{goal{bound: .5}, .5, 0, true, "≤ 0.5"},
		{goal{bound: .5}, .51, 100, false, "≤ 0.5"},
	} {
		if got := c.goal.reached(c.our, c.peer); got != c.reached {
			t.Errorf("%s with %g and %g: %v", c.goal, c.our, c.peer, got)
		}
		if got := c.goal.String(); got != c.says {
			t.Errorf("%q, want %q", got, c.says)
		}
	}
}

func TestGoalsAreThoseThatWereSet(t *testing.T) {
	want := map[string]string{
		"map cpu_us":                        "≤ 0.65× franz-go ≤ 0.2× kafka-streams ",
		"map records_per_s":                 "≥ 1.2× franz-go ",
		"count cpu_us":                      "≤ 0.12× kafka-streams ",
		"count records_per_s":               "≥ 6× kafka-streams ",
		"count peak_rss_mib":                "≤ 1× goka ",
		"count, paced cpu_us":               "≤ 0.25× kafka-streams ",
		"count, each update cpu_us":         "≤ 0.2× goka ",
		"wordcount cpu_us":                  "≤ 0.15× kafka-streams ",
		"restore cpu_us":                    "≤ 0.4× kafka-streams ",
		"restore records_per_s":             "≥ 1.5× kafka-streams ",
		"count, smallest heap peak_rss_mib": "≤ 0.4× kafka-streams ≤ 1× goka ",
		"start first_s":                     "≤ 0.5 ",
	}
	got := map[string]string{}
	for _, g := range goals {
		got[g.workload+" "+string(g.figure)] += g.String() + " "
	}
	for of, goals := range want {
		if got[of] != goals {
			t.Errorf("%s: %q, want %q", of, got[of], goals)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows with goals, want %d", len(got), len(want))
	}
}
