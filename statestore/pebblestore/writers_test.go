package pebblestore

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func taskN(n int) statestore.TaskID { return statestore.TaskID{Partition: int32(n)} }

func TestWritersKeepTheOrderOfATask(t *testing.T) {
	w := NewWriters(4)
	var mu sync.Mutex
	got := map[statestore.TaskID][]int{}
	running := map[statestore.TaskID]bool{}
	want := []int{}
	for i := range 200 {
		want = append(want, i)
		for n := range 5 {
			task := taskN(n)
			w.Do(task, time.Minute, func() error {
				mu.Lock()
				defer mu.Unlock()
				if running[task] {
					return errors.New("two at a time")
				}
				running[task] = true
				return nil
			}, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				running[task] = false
				if err == nil {
					got[task] = append(got[task], i)
				}
			})
		}
	}
	w.Close()
	for n := range 5 {
		require.Equal(t, want, got[taskN(n)])
	}
}

func TestWritersReportAnOverrunAndThenTheResult(t *testing.T) {
	w := NewWriters(1)
	release := make(chan struct{})
	first, second := make(chan error, 2), make(chan error, 2)
	failed := errors.New("failed in the end")
	w.Do(taskN(1), 10*time.Millisecond, func() error { <-release; return failed }, func(err error) { first <- err })
	w.Do(taskN(2), 10*time.Millisecond, func() error { return nil }, func(err error) { second <- err })

	var overrun *OverrunError
	require.ErrorAs(t, <-first, &overrun)
	require.Equal(t, taskN(1), overrun.Task)
	require.ErrorContains(t, overrun, "full or slow disk")
	require.ErrorAs(t, <-second, &overrun, "also one that waits for its turn")
	close(release)
	require.ErrorIs(t, <-first, failed)
	require.NoError(t, <-second)
	w.Close()
	require.Empty(t, first)
	require.Empty(t, second)
}

func TestOneBlockedTaskDoesNotHoldUpAnother(t *testing.T) {
	w := NewWriters(2)
	release := make(chan struct{})
	done := make(chan error, 3)
	w.Do(taskN(1), 0, func() error { <-release; return nil }, func(error) {})
	w.Do(taskN(1), 0, func() error { return nil }, func(error) {}) // waits for the first, without taking the other goroutine
	for n := range 3 {
		w.Do(taskN(2+n), 0, func() error { return nil }, func(err error) { done <- err })
	}
	for range 3 {
		require.NoError(t, <-done)
	}
	close(release)
	w.Close()
	w.Do(taskN(1), 0, func() error { panic("never called") }, func(err error) { done <- err })
	require.ErrorIs(t, <-done, ErrClosed)
}
