package retry

import (
	"slices"
	"sort"
	"strconv"
)

// Run is a range of offsets; To is not in it.
type Run struct{ From, To int64 }

// Len is how many offsets the run holds.
func (r Run) Len() int64 { return r.To - r.From }

// String is the run with its last offset: "70", "75-79".
func (r Run) String() string {
	s := strconv.FormatInt(r.From, 10)
	if r.Len() > 1 {
		s += "-" + strconv.FormatInt(r.To-1, 10)
	}
	return s
}

// joinRun appends a run to those from start on, which it follows; it becomes one with the last where they touch.
func joinRun(runs []Run, start int, r Run) []Run {
	if last := len(runs) - 1; last >= start && runs[last].To >= r.From {
		runs[last].To = max(runs[last].To, r.To)
		return runs
	}
	return append(runs, r)
}

// clipRuns is a copy of what lies of the runs between two offsets, each run as long as can be.
func clipRuns(runs []Run, low, high int64) []Run {
	if len(runs) == 0 {
		return nil
	}
	clipped := make([]Run, 0, len(runs))
	for _, r := range runs {
		r = Run{From: max(r.From, low), To: min(r.To, high)}
		if r.From < r.To {
			clipped = joinRun(clipped, 0, r)
		}
	}
	return clipped
}

// searchRuns is the place of the run that holds an offset.
func searchRuns(runs []Run, offset int64) (int, bool) {
	if len(runs) == 0 || offset < runs[0].From {
		return 0, false
	}
	i := sort.Search(len(runs), func(i int) bool { return runs[i].To > offset })
	return i, i < len(runs) && runs[i].From <= offset
}

// withoutOffset takes an offset out of the run at i.
func withoutOffset(runs []Run, i int, offset int64) []Run {
	r := runs[i]
	switch {
	case r.Len() == 1:
		return slices.Delete(runs, i, i+1)
	case offset == r.From:
		runs[i].From++
	case offset == r.To-1:
		runs[i].To--
	default:
		runs[i].To = offset
		return slices.Insert(runs, i+1, Run{From: offset + 1, To: r.To})
	}
	return runs
}
