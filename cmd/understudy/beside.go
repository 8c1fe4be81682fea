package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/understudy-streams/understudy/retry"
)

// besideView is what a commit says beside its offset. Offsets and times that are not there are -1; times are in milliseconds.
type besideView struct {
	StreamTime int64     `json:"streamTime"`
	Main       int64     `json:"main"`            // the first offset that was never taken
	Holes      []runView `json:"holes,omitempty"` // what is not done below it
	Open       int64     `json:"open"`            // how many offsets that is
	Head       *headView `json:"head,omitempty"`  // of the record at the offset, where it has failed
	Running    bool      `json:"running"`
	Starts     int       `json:"starts,omitempty"` // that did not get on
	Suspect    int64     `json:"suspect"`          // a record that is run alone, as processes have died over it
	Deaths     int       `json:"deaths,omitempty"`
	// Problem says why nothing of it could be read.
	Problem string `json:"problem,omitempty"`

	line string
}

// runView are offsets from one to below another.
type runView struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

type headView struct {
	Attempt int   `json:"attempt"`
	First   int64 `json:"first"`
	Due     int64 `json:"due"`
}

// besideOf reads the metadata of a commit.
func besideOf(metadata string, offset, end int64) *besideView {
	if metadata == "" {
		return nil
	}
	m, err := retry.ParseMetadata(metadata, offset, end)
	v := &besideView{StreamTime: m.StreamTime, Main: m.Main, Running: m.Running, Starts: m.Starts, Suspect: m.Suspect, Deaths: m.Deaths}
	if err != nil {
		v.Problem = err.Error()
		v.line = plain(v.Problem, 300)
		return v
	}
	for _, h := range m.Holes {
		v.Holes = append(v.Holes, runView{From: h.From, To: h.To})
		v.Open += h.To - h.From
	}
	if m.Head != nil {
		v.Head = &headView{Attempt: m.Head.Attempt, First: m.Head.First, Due: m.Head.Due}
	}
	if len(m.Holes) > 0 || m.Head != nil || m.Starts > 0 || m.Suspect >= 0 || m.Deaths > 0 || m.Main > offset {
		v.line = m.String()
	}
	return v
}

// besides prints those that say more than the stream time.
func (v *view) besides(b *strings.Builder) {
	first := true
	table(b, func(t *tabwriter.Writer) {
		for _, p := range v.Partitions {
			if p.Beside == nil || p.Beside.line == "" {
				continue
			}
			if first {
				fmt.Fprint(t, "\nbeside the offsets\n")
				first = false
			}
			fmt.Fprintf(t, "  %s-%d\t%s\n", p.Topic, p.Partition, p.Beside.line)
		}
	})
}
