package main

import (
	"strings"
	"testing"
)

func TestUpper(t *testing.T) {
	for _, s := range []string{"", "a", "Zz9 -é", strings.Repeat("abc", 50)} {
		want := strings.Map(func(r rune) rune {
			if 'a' <= r && r <= 'z' {
				r -= 'a' - 'A'
			}
			return r
		}, s)
		if got := upper(s); got != want {
			t.Errorf("upper(%q) = %q", s, got)
		}
	}
	s := strings.Repeat("x", 100)
	var kept string
	if n := testing.AllocsPerRun(100, func() { kept = upper(s) }); n != 1 || kept == "" {
		t.Errorf("%v allocations, want one: the same work as in the other programs", n)
	}
}
