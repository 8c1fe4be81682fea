package virtual

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld() *World {
	return New(Config{Begin: begin, Rand: rand.New(rand.NewPCG(1, 1)), Brokers: modelbroker.Config{Brokers: 1}, Pace: Pace{Turn: 1}})
}

func never() bool { return false }

// Time goes on to where it is let, and no further: what lies at the very end happens, what lies behind it does not.
func TestRunTo(t *testing.T) {
	w := newWorld()
	var order []string
	for _, d := range []time.Duration{3, 1, 2} {
		w.After(d*time.Second, nil, func() { order = append(order, w.Now.Sub(begin).String()) })
	}
	require.True(t, w.RunTo(begin.Add(2*time.Second), never))
	require.Equal(t, []string{"1s", "2s"}, order)
	require.False(t, w.RunTo(begin.Add(time.Minute), func() bool { return true }), "it is stopped after the next thing")
	require.Equal(t, begin.Add(3*time.Second), w.Now)
	require.True(t, w.RunTo(begin.Add(time.Minute), never))
	require.Equal(t, begin.Add(time.Minute), w.Now)
}

// A process that is paused gets its events late and in their order; one that has ended never gets them.
func TestEventsOfAProcess(t *testing.T) {
	w := newWorld()
	h := &Host{Disk: statestore.NewMemory(), Paused: begin.Add(5 * time.Second)}
	p := w.NewProcess(ProcessConfig{Host: h, Engine: engine.Config{}})
	var got []time.Duration
	for range 2 {
		w.After(time.Second, p, func() { got = append(got, w.Now.Sub(begin)) })
	}
	w.After(10*time.Second, p, func() { got = append(got, w.Now.Sub(begin)) })
	w.RunTo(begin.Add(6*time.Second), never)
	require.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, got)
	p.End()
	w.RunTo(begin.Add(time.Minute), never)
	require.Len(t, got, 2)
}

// Messages of one lane keep their order, however long each of them takes.
func TestLane(t *testing.T) {
	w := newWorld()
	var l lane
	var got []int
	for i, d := range []time.Duration{time.Second, 0, time.Millisecond} {
		w.send(&l, d, nil, func() { got = append(got, i) })
	}
	w.RunTo(begin.Add(time.Minute), never)
	require.Equal(t, []int{0, 1, 2}, got)
}

// A task that goes back to its last commit is told what was refused, or it would be refused again. Its clock is the host's.
func TestTaskIsToldWhatBrokersHaveRefused(t *testing.T) {
	w := newWorld()
	var got task.Config
	p := w.NewProcess(ProcessConfig{
		Host: &Host{Disk: statestore.NewMemory(), Skew: time.Hour}, Engine: engine.Config{},
		NewTask: func(c task.Config) task.Config { got = c; return c },
	})
	p.startTask(engine.StartTask{Spec: &task.Spec{}, Refused: []task.Refusal{{Topic: "out", Print: 7, At: begin.UnixMilli()}}})
	require.Equal(t, []task.Refusal{{Topic: "out", Print: 7, At: begin.Add(time.Hour).UnixMilli()}}, got.Refused)
}
