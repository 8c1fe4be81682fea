package main

import (
	"slices"
	"testing"
	"time"
)

func appendAt(key string, count int64, ms int) appended {
	return appended{key, count, time.UnixMilli(int64(ms))}
}

func TestLatencies(t *testing.T) {
	in := map[int32][]appended{
		0: {appendAt("a", 0, 0), appendAt("a", 0, 100), appendAt("b", 0, 200)}, // the first is in the quarter that is left out
		1: {appendAt("c", 0, 400)},
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	check := func(name string, took []time.Duration, why string, want ...time.Duration) {
		t.Helper()
		slices.Sort(took)
		if why != "" || !slices.Equal(took, want) {
			t.Errorf("%s: %v, %s; want %v", name, took, why, want)
		}
	}
	took, why := mapLatencies(in, map[int32][]appended{
		0: {appendAt("a", 0, 7), appendAt("a", 0, 105), appendAt("b", 0, 210)},
		1: {appendAt("c", 0, 401)},
	})
	check("map", took, why, ms(1), ms(5), ms(10))
	// The update to 1 never came out; the update to 2 answers both.
	took, why = countLatencies(in, map[int32][]appended{
		0: {appendAt("a", 2, 150), appendAt("b", 1, 280)},
		1: {appendAt("c", 1, 500), appendAt("c", 1, 600)},
	})
	check("count", took, why, ms(50), ms(80), ms(100))

	if _, why := mapLatencies(in, map[int32][]appended{0: {appendAt("a", 0, 7)}}); why == "" {
		t.Error("missing outputs are not noticed")
	}
	if _, why := mapLatencies(map[int32][]appended{0: in[0][:1]}, map[int32][]appended{0: {appendAt("z", 0, 7)}}); why == "" {
		t.Error("another order is not noticed")
	}
	if _, why := countLatencies(in, map[int32][]appended{0: {appendAt("a", 1, 150), appendAt("b", 1, 280)}, 1: {appendAt("c", 1, 500)}}); why == "" {
		t.Error("an input that is not counted is not noticed")
	}
}

func TestQuantile(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{.5: 51, .99: 100, 1: 100, 0: 1} {
		if got := quantile(times, q); got != want {
			t.Errorf("%g: %d, want %d", q, got, want)
		}
	}
	if quantile(nil, .5) != 0 {
		t.Error("of nothing")
	}
}
