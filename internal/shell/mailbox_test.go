package shell

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMailboxLosesNothingAndWakesItsReader(t *testing.T) {
	m := newMailbox[int]()
	const writers, each = 4, 5000
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				m.put(i)
			}
		})
	}
	sum, n := 0, 0
	var got []int
	for n < writers*each {
		<-m.signal // one that is lost makes the test hang
		got = m.take(got)
		for _, v := range got {
			sum += v
		}
		n += len(got)
	}
	wg.Wait()
	require.Equal(t, writers*each*(each-1)/2, sum)
}

func TestMailboxRetiresOnlyEmpty(t *testing.T) {
	m := newMailbox[int]()
	require.True(t, m.put(1))
	require.False(t, m.retire())
	require.True(t, m.put(2))
	require.Equal(t, []int{1, 2}, m.take(nil))
	require.False(t, m.closed())
	require.True(t, m.retire())
	require.True(t, m.closed())
	require.False(t, m.put(3))
	require.Empty(t, m.take(nil))
}

func TestMailboxForgetsWhatItHoldsWhenClosed(t *testing.T) {
	m := newMailbox[*int]()
	m.put(new(int))
	m.close()
	require.False(t, m.put(new(int)))
	require.Empty(t, m.take(nil))
	require.True(t, m.retire())
}

func TestWakeupHoldsTheEarliest(t *testing.T) {
	now := time.Now()
	w := newWakeup(time.Now)
	defer w.stop()
	require.False(t, w.due(now))
	w.set(now.Add(time.Hour))
	w.set(now.Add(time.Millisecond))
	w.set(now.Add(2 * time.Hour))
	<-w.timer.C
	w.fired()
	require.True(t, w.due(now.Add(time.Millisecond)))
	require.False(t, w.due(now.Add(3*time.Hour)), "it is forgotten")
	w.set(now.Add(time.Hour))
	w.move(now.Add(2 * time.Hour))
	require.False(t, w.due(now.Add(time.Hour)))
	w.at = time.Now().Add(5 * time.Millisecond)
	w.fired() // too early, as after a clock that was set back: armed again
	<-w.timer.C
	require.True(t, w.due(time.Now().Add(time.Millisecond)))
}
