package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/understudy-streams/understudy/streams"
)

// status is how the application gets on.
type status struct {
	located     int
	parked, due int
	gates       int
	deadLetters int64
	retried     int64
	breaker     string
	waits       bool
	down        bool // the service
}

// said is what each task has said last: one in the middle of a long call says nothing.
type said map[streams.TaskID]*streams.Failures

// look adds up what the tasks say.
func (last said) look(app *streams.App, located *places, s *service) status {
	st := status{located: int(located.n.Load()), breaker: "none", down: s.down.Load()}
	for _, t := range app.Tasks() {
		if t.Failures != nil {
			last[t.ID] = t.Failures
		}
	}
	for _, f := range last {
		st.add(f)
	}
	return st
}

func (s *status) add(f *streams.Failures) {
	s.parked += f.Parked
	s.due += f.Due
	s.gates += f.Gates
	s.deadLetters += f.DeadLetters
	s.retried += f.Retried
	s.waits = s.waits || f.Waits > 0
	if f.Breaker != "" && (s.breaker == "none" || s.breaker == "closed") {
		s.breaker = f.Breaker // the worst is said
	}
}

func (s status) String() string {
	text := fmt.Sprintf("located %5d  tried again %5d  parked %5d  due %4d  gates %3d  dead letters %3d  breaker %s",
		s.located, s.retried, s.parked, s.due, s.gates, s.deadLetters, s.breaker)
	if s.waits {
		text += "  (a task waits)"
	}
	if s.down {
		text += "  the service is DOWN"
	}
	return text
}

// view shows a line: in its place on a terminal, one below the other elsewhere.
type view struct {
	out  io.Writer
	live bool
}

func newView(f *os.File) *view {
	info, err := f.Stat()
	return &view{out: f, live: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (v *view) show(since time.Duration, s status) {
	before, after := "", "\n"
	if v.live {
		before, after = "\r\x1b[K", ""
	}
	fmt.Fprintf(v.out, "%s%4.0f s  %v%s", before, since.Seconds(), s, after)
}

// end leaves the last line where it is.
func (v *view) end() {
	if v.live {
		fmt.Fprintln(v.out)
	}
}
