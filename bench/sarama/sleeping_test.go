package main

import "testing"

func TestLowWater(t *testing.T) {
	l := &lowWater{next: -2, done: map[int64]bool{}} // sarama's oldest
	for _, c := range []struct{ offset, low int64 }{{2, 0}, {0, 1}, {3, 1}, {1, 4}, {4, 5}} {
		if got := l.finish(c.offset); got != c.low {
			t.Errorf("%d is done: the first that is not is %d, want %d", c.offset, got, c.low)
		}
	}
	if len(l.done) != 0 {
		t.Errorf("%v is kept", l.done)
	}
}
