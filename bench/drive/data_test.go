package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestInputIsTheSameEachTime(t *testing.T) {
	for _, in := range []input{{kind: "pairs", records: 500, keys: 100}, {kind: "distinct", records: 500}, {kind: "lines", records: 500}} {
		var first, second []byte
		n := 0
		for k, v := range in.all() {
			first = append(append(first, k...), v...)
			n++
		}
		for k, v := range in.all() {
			second = append(append(second, k...), v...)
		}
		if n != 500 || !bytes.Equal(first, second) {
			t.Errorf("%s: %d records, equal: %v", in.kind, n, bytes.Equal(first, second))
		}
	}
}

func TestInputIsWhatTheReadmeSays(t *testing.T) {
	for k, v := range pairs(100, 50) {
		if n, ok := keyNumber(k); !ok || n >= 50 || len(v) != valueBytes {
			t.Fatalf("key %q, value of %d bytes", k, len(v))
		}
	}
	i := 0
	for k := range distinct(100) {
		if n, ok := keyNumber(k); !ok || n != i {
			t.Fatalf("key %q at %d", k, i)
		}
		i++
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

func TestKeys(t *testing.T) {
	if k := string(key(1234567)); k != "k1234567" {
		t.Error(k)
	}
	if k := string(key(40)); k != "k0000040" {
		t.Error(k)
	}
	for _, bad := range []string{"", "k000004", "x0000040", "k00000x0", "k00000400"} {
		if n, ok := keyNumber([]byte(bad)); ok {
			t.Errorf("%q is taken for %d", bad, n)
		}
	}
}

func TestWorkloads(t *testing.T) {
	names := map[string]bool{}
	for part := range parts {
		full := parted(t, part, 1)
		small := parted(t, part, .01)
		if len(full) == 0 || len(full) != len(small) {
			t.Fatalf("%s: %d workloads, small %d", part, len(full), len(small))
		}
		for i, w := range full {
			if names[w.name] || w.part != part || !slices.Contains(w.programs, ours) && w.trouble == nil {
				t.Errorf("%q: its name is there twice, or it belongs to %q, or we are not in it", w.name, w.part)
			}
			names[w.name] = true
			for _, p := range w.programs {
				if a, b := w.of(p).records, small[i].of(p).records; b > a || b <= 0 || (b == a && a > 1_000_000) {
					t.Errorf("%s, %s: %d records, and %d in a look", w.name, p, a, b)
				}
			}
		}
	}
	for _, g := range goals {
		if !names[g.workload] {
			t.Errorf("goal of a workload that is not there: %q", g.workload)
		}
	}
	for _, p := range everything {
		if parts[p] == nil {
			t.Errorf("no part %q", p)
		}
	}
	if _, err := part("nothing", 1); err == nil {
		t.Error("there is a part named nothing")
	}
}

func parted(t *testing.T, name string, scale float64) []workload {
	t.Helper()
	all, err := part(name, scale)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSameTopicsForSameInputs(t *testing.T) {
	w := workload{input: pairsOf(100, 10, 8), sizes: map[string]int{goka: 5}}
	if w.of(ours).topic() != w.of(ks).topic() || w.of(goka).topic() == w.of(ours).topic() || w.of(goka).records != 5 {
		t.Errorf("%s %s %s", w.of(ours).topic(), w.of(ks).topic(), w.of(goka).topic())
	}
}
