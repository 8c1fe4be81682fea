package main

import "testing"

// seen is a timeline of outputs by one instance.
func seen(by byte, at ...int64) timeline {
	var t timeline
	for _, ms := range at {
		t = t.add(sighting{ms, by})
	}
	return t
}

func TestTimelineKeepsOneOfEqualSightings(t *testing.T) {
	line := append(seen('a', 1, 1, 1, 2), seen('b', 2, 2)...)
	if len(line) != 3 {
		t.Errorf("%v", line)
	}
}

func TestLongestSilence(t *testing.T) {
	line := seen('a', 0, 10, 20, 500, 510, 1000, 1010)
	for _, c := range []struct {
		name string
		w    window
		want gap
	}{
		{"inside", window{5, 505}, gap{20, 500}},
		{"begins before the window", window{100, 510}, gap{20, 500}},
		{"ends after the window", window{400, 700}, gap{510, 1000}},
		{"ends with the window", window{505, 1000}, gap{510, 1000}},
		{"has not ended", window{1005, 9000}, gap{1010, 9000}},
		{"an output at the very end", window{20, 500}, gap{20, 500}},
		{"none", window{1002, 1010}, gap{1000, 1010}},
	} {
		if got := line.longest(c.w); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := timeline(nil).longest(window{100, 300}); got != (gap{100, 300}) {
		t.Errorf("a partition without outputs is silent all the time: %v", got)
	}
	if got := seen('a', 500).longest(window{100, 600}); got != (gap{100, 500}) {
		t.Errorf("before the first output: %v", got)
	}
}

func TestSteadySilenceLiesInItsWindow(t *testing.T) {
	line := seen('a', 0, 10, 20, 500, 510, 1000)
	for want, w := range map[gap]window{
		{10, 20}:   {5, 499}, // the silence up to 500 belongs to what comes next
		{20, 500}:  {0, 999},
		{500, 510}: {21, 999},
		{}:         {501, 509},
	} {
		if got := line.within(w); got != want {
			t.Errorf("%v: %v, want %v", w, got, want)
		}
	}
}

func TestOwnersOfAPartition(t *testing.T) {
	line := append(append(seen('a', 0, 10, 20), seen('b', 120, 130)...), seen('a', 300)...)
	for _, c := range []struct {
		w    window
		want string
	}{{window{0, 20}, "a"}, {window{5, 120}, "ab"}, {window{25, 115}, "ab"}, {window{5, 19}, "a"}, {window{121, 129}, "b"}, {window{125, 200}, "ba"}, {window{5, 300}, "aba"}, {window{125, 300}, "ba"}} {
		if got := string(line.owners(c.w)); got != c.want {
			t.Errorf("%v: %s, want %s", c.w, got, c.want)
		}
		if got := line.handovers(c.w); got != len(c.want)-1 {
			t.Errorf("%v: %d handovers", c.w, got)
		}
	}
	if by := line.owner(-1); by != 0 {
		t.Errorf("nobody yet, but %c", by)
	}
	if got := timeline(nil).handovers(window{0, 9}); got != 0 {
		t.Errorf("%d handovers of nothing", got)
	}
}

func TestArrivalAtTheNewOwner(t *testing.T) {
	line := append(seen('a', 0, 10, 20), seen('b', 120, 130)...)
	if at, ok := line.arrival(window{5, 500}, []byte("cb")); !ok || at != 120 {
		t.Errorf("%d, %v", at, ok)
	}
	if _, ok := line.arrival(window{5, 119}, []byte("b")); ok {
		t.Error("it comes later")
	}
}

func TestSilencesInAll(t *testing.T) {
	line := append(seen('a', 0, 10, 20), seen('b', 120, 130, 300, 310)...)
	for _, c := range []struct {
		w      window
		longer int64
		want   float64
	}{
		{window{0, 310}, 50, .1 + .17},
		{window{0, 310}, 100, .17}, // what is no longer than that is usual
		{window{0, 310}, 170, 0},
		{window{50, 200}, 50, .1 + .17}, // both reach beyond it
		{window{130, 300}, 50, .17},
		{window{300, 500}, 50, .19}, // one that has not ended
		{window{350, 500}, 50, .19}, // that began before
		{window{21, 22}, 50, .1},
	} {
		if got := line.silent(c.w, c.longer); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%v, longer than %d: %v, want %v", c.w, c.longer, got, c.want)
		}
	}
	if got := timeline(nil).silent(window{5, 105}, 50); got != .1 {
		t.Errorf("of nothing %v", got)
	}
}
