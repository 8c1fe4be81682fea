package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// redriveView is what came of it. Its names in JSON stay the same.
type redriveView struct {
	App        string        `json:"app"`
	Topic      string        `json:"topic"`
	To         string        `json:"to"`
	Group      string        `json:"group"` // that keeps the progress
	Applied    bool          `json:"applied"`
	Letters    int64         `json:"letters"` // read
	Sent       int64         `json:"sent"`    // or to be sent, where it was not applied
	Before     int64         `json:"redrivenBefore"`
	LeftOut    int64         `json:"leftOut"` // by the filters
	Looped     int64         `json:"loopGuard"`
	NoRecord   int64         `json:"noRecord"` // rows that belong to none, and what was put aside and could not be read
	Unreadable int64         `json:"unreadable"`
	Refused    []refusedView `json:"refused,omitempty"` // by the broker, the first of them
	RefusedAll int64         `json:"refusedCount"`
}

type refusedView struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Why       string `json:"why"`
}

func (v *redriveView) refuse(tp task.TopicPartition, offset int64, why error) {
	if v.RefusedAll++; len(v.Refused) < 20 {
		v.Refused = append(v.Refused, refusedView{Partition: tp.Partition, Offset: offset, Why: why.Error()})
	}
}

func (v *redriveView) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dead letters  %s\nredriven to   %s\nprogress      group %s\n\n", v.Topic, v.To, v.Group)
	sent := "sent"
	if !v.Applied {
		sent = "to be sent"
	}
	table(&b, func(t *tabwriter.Writer) {
		row := func(name string, n int64, what string) {
			if n > 0 {
				fmt.Fprintf(t, "%s\t%d\t%s\n", name, n, what)
			}
		}
		fmt.Fprintf(t, "%s\t%d\n", sent, v.Sent)
		row("redriven before", v.Before, "")
		row("left out", v.LeftOut, "by the flags")
		row("loop guard", v.Looped, fmt.Sprintf("have come back %d times already", retry.MaxRedrives))
		row("no record", v.NoRecord, "rows of stores, and what could not be read: there is nothing to run")
		row("unreadable", v.Unreadable, "are no dead letters, or of a partition that "+v.To+" does not have")
		row("refused", v.RefusedAll, "by the broker; they stay where they are")
	})
	for _, r := range v.Refused {
		fmt.Fprintf(&b, "  partition %d offset %d: %s\n", r.Partition, r.Offset, plain(r.Why, 300))
	}
	if !v.Applied {
		b.WriteString("\nNothing was written: -apply does it.\n")
	}
	return b.String()
}
