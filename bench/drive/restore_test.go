package main

import (
	"testing"
	"time"
)

func TestLastRunning(t *testing.T) {
	got, ok := lastRunning([]byte("[main] INFO\nRUNNING at=1000 restored=0 restore_ms=0\nRUNNING at=2500 restored=77 restore_ms=1400\nRUNNING at=9"))
	if want := (back{time.UnixMilli(2500), 77, 1400 * time.Millisecond}); !ok || got != want {
		t.Errorf("%v, %v", got, ok)
	}
	if _, ok := lastRunning([]byte("log: RUNNING at=1 restored=2 restore_ms=3")); ok {
		t.Error("a line that only mentions it")
	}
}

func TestSmallest(t *testing.T) {
	sizes := []int{1, 2, 3, 5, 8, 13}
	for want := range sizes {
		tries := 0
		got, err := smallest(sizes, func(size int) (bool, error) { tries++; return size >= sizes[want], nil })
		if err != nil || got != sizes[want] || tries > 3 {
			t.Errorf("%d after %d tries, %v; want %d", got, tries, err, sizes[want])
		}
	}
}
