package main

import (
	"hash/maphash"
	"testing"
)

func TestMistakes(t *testing.T) {
	var none, some mistakes
	none.compare(2, 2)
	some.compare(2, 3)
	some.compare(2, 1)
	some.compare(2, 0)
	some.unknown, some.malformed = 1, 4
	if none.String() != "" {
		t.Error(none.String())
	}
	if want := "of 3 keys 1 are too high, 2 too low or missing; 1 records have unknown keys, 4 values that are not 8 bytes"; some.String() != want {
		t.Error(some.String())
	}
}

func TestSumsAreOfTheUpperCase(t *testing.T) {
	s := sums{maphash.MakeSeed(), map[input]uint64{}}
	in := pairsOf(50, 10, 8)
	var want uint64
	for k, v := range in.all() {
		up := make([]byte, len(v))
		for i, c := range v {
			up[i] = c - 'a' + 'A' // the input has nothing else
		}
		want += s.pair(k, up)
	}
	if s.want(in) != want || s.want(in) != want || s.want(pairsOf(49, 10, 8)) == want {
		t.Error("the sum of another output")
	}
}
