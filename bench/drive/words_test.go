package main

import (
	"math"
	"testing"
)

func TestWordsAreReadFromOutput(t *testing.T) {
	all := words([]byte("2026 WARN at work\nTASK at=17 task=0_3 state=running\nRUNNING at=20 restored=5 restore_ms=9\nhalf a li"), 2)
	if len(all) != 2 || all[0].what != "TASK" || all[0].at != 17 || all[0].process != 2 || all[0].details["state"] != "running" || all[1].number("restored") != 5 {
		t.Errorf("%v", all)
	}
}

func task(process int, at int64, id, state string) word {
	return word{what: "TASK", at: at, process: process, details: map[string]string{"task": id, "state": state}}
}

func TestNeedlessPauses(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []word
		want int
		took float64
	}{
		{"none", []word{task(1, 10, "0_0", "running")}, 0, 0},
		{"moved", []word{task(1, 10, "0_0", "running"), task(1, 20, "0_0", "releasing"), task(1, 21, "0_0", "released"), task(2, 30, "0_0", "running")}, 0, 0},
		{"came back", []word{task(1, 20, "0_0", "releasing"), task(1, 21, "0_0", "released"), task(1, 30, "0_0", "running")}, 1, .01},
		{"out of order between files", []word{task(2, 25, "0_0", "running"), task(1, 20, "0_0", "releasing"), task(1, 30, "0_0", "running")}, 0, 0},
		{"moved there and back", []word{task(1, 20, "0_0", "released"), task(2, 30, "0_0", "running"), task(2, 40, "0_0", "released"), task(1, 50, "0_0", "running")}, 0, 0},
		{"two tasks", []word{task(1, 20, "0_0", "releasing"), task(1, 20, "0_1", "releasing"), task(1, 30, "0_1", "running"), task(1, 31, "0_0", "running")}, 2, .021},
		{"started anew", []word{task(1, 20, "0_0", "closing"), task(3, 30, "0_0", "running")}, 0, 0},
		{"before the window", []word{task(1, 4, "0_0", "releasing"), task(1, 30, "0_0", "running")}, 0, 0},
	} {
		if got, took := needless(c.all, window{5, 100}); got != c.want || math.Abs(took-c.took) > 1e-9 {
			t.Errorf("%s: %d in %v s, want %d in %v s", c.name, got, took, c.want, c.took)
		}
	}
}

func TestHowOftenSomethingWasSaid(t *testing.T) {
	all := []word{{what: "LOST", at: 5}, {what: "LOST", at: 6}, {what: "TASK", at: 7}, {what: "LOST", at: 9}, {what: "LOST", at: 10}}
	if n := happened("LOST", all, window{5, 9}); n != 2 {
		t.Errorf("%d", n)
	}
}

func restore(process int, at int64, id, records, took string) word {
	return word{what: "RESTORED", at: at, process: process, details: map[string]string{"task": id, "start": "0", "records": records, "took_ms": took}}
}

func with(name, value string, w word) word {
	w.details[name] = value
	return w
}

func TestColdRestores(t *testing.T) {
	all := []word{
		with("role", "active", restore(1, 20, "0_0", "5000", "9")),  // cold
		with("role", "active", restore(1, 21, "0_1", "499", "9")),   // nothing to speak of
		with("start", "70000", restore(1, 21, "0_5", "5000", "9")),  // what it had missed
		with("role", "learner", restore(1, 22, "0_2", "5000", "9")), // a learner stands in nobody's way
		restore(2, 23, "0_3", "500", "9"),                           // of a program that tells no roles
		restore(2, 200, "0_4", "500", "9"),
	}
	found := restoresIn(all, window{5, 100})
	if len(found) != 5 {
		t.Errorf("%d restores", len(found))
	}
	if got := cold(found, 500); got != 2 {
		t.Errorf("%d cold ones, want 2", got)
	}
}

func TestLearningTime(t *testing.T) {
	found := restoresIn([]word{restore(1, 3000, "0_0", "9", "1500"), restore(1, 4000, "0_1", "9", "1200"), restore(2, 5000, "0_2", "9", "5000"), restore(1, 9000, "0_3", "9", "1")}, window{0, 10_000})
	if got, ok := learning(found, []int{1}, 8000); !ok || got != 2.5 {
		t.Errorf("%v, %v", got, ok)
	}
	if _, ok := learning(found, []int{3}, 8000); ok {
		t.Error("nobody else has restored anything")
	}
}
