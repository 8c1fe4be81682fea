package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
)

// goal is where a reset takes each partition. It means what kafka-consumer-groups means by --to-earliest, --to-latest, --to-offset,
// --to-datetime and --by-duration: the last is that long ago, counted from now, and not a shift of the committed offset.
type goal struct {
	kind   goalKind
	offset int64
	at     time.Time
}

type goalKind int

const (
	toEarliest goalKind = iota
	toLatest
	toOffset
	toTime
)

// goalOf reads -to and -by, of which there is one.
func goalOf(to string, by time.Duration, now time.Time) (goal, string) {
	switch {
	case to != "" && by != 0:
		return goal{}, "-to and -by exclude each other"
	case by < 0:
		return goal{}, fmt.Sprintf("-by is %v: it is how long ago, and must be positive", by)
	case by > 0:
		return goal{kind: toTime, at: now.Add(-by).UTC().Truncate(time.Millisecond)}, ""
	case to == "":
		return goal{}, "-to or -by is missing: -to earliest, -to latest, -to 1200 (an offset), -to 2006-01-02T15:04:05Z, or -by 2h for two hours ago"
	case to == "earliest":
		return goal{kind: toEarliest}, ""
	case to == "latest":
		return goal{kind: toLatest}, ""
	}
	if n, err := strconv.ParseInt(to, 10, 64); err == nil && n >= 0 {
		return goal{kind: toOffset, offset: n}, ""
	}
	at, err := time.Parse(time.RFC3339, to)
	if err != nil {
		return goal{}, fmt.Sprintf("-to %q is neither earliest nor latest, nor an offset, nor a time as 2006-01-02T15:04:05Z", to)
	}
	return goal{kind: toTime, at: at}, ""
}

// flag is what -to says for the same goal, whenever that is.
func (g goal) flag() string {
	switch g.kind {
	case toEarliest:
		return "earliest"
	case toLatest:
		return "latest"
	case toOffset:
		return strconv.FormatInt(g.offset, 10)
	default:
		return g.at.UTC().Format(time.RFC3339Nano)
	}
}

// bounds are what the log of a partition says; since is the first offset at the time of the goal or later, -1 where there is none.
type bounds struct {
	first, end int64
	since      kafka.ListedOffset
}

// target is the offset for a partition, and what is to be said about it.
func (g goal) target(b bounds) (offset int64, note string) {
	switch g.kind {
	case toEarliest:
		return b.first, ""
	case toLatest:
		return b.end, ""
	case toTime:
		if b.since.Offset < 0 {
			return b.end, "no record is as late: the end"
		}
		return b.since.Offset, ""
	}
	switch {
	case g.offset < b.first:
		return b.first, "the log begins here"
	case g.offset > b.end:
		return b.end, "the log ends here"
	}
	return g.offset, ""
}
