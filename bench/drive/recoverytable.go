package main

// The figures of the recovery benchmark, from the start of the process.
const (
	freshAfter figure = "fresh_after_s"
	gapClosed  figure = "gap_closed_s"
)

// recoveryColumns are the ways to go on after a crash.
var recoveryColumns = []string{ours, onOnePath, ks}

func recoveryRows() []failureRow {
	var rows []failureRow
	add := func(workload, title string, of func(*results, string) quantity, print func(float64) string, goal string, bound float64) {
		rows = append(rows, failureRow{workload, title, of, print, bound, goal})
	}
	for _, lag := range recoveryLags {
		add(freshFirst, "lag "+thousands(float64(lag))+": s", func(r *results, way string) quantity {
			return r.quantity(freshFirst, behindBy(way, lag), freshAfter)
		}, thousandths, "", 0)
	}
	add(freshFirst, "at the largest lag ÷ at the smallest", func(r *results, way string) quantity {
		largest := r.quantity(freshFirst, behindBy(way, recoveryLags[len(recoveryLags)-1]), freshAfter)
		return largest.over(r.quantity(freshFirst, behindBy(way, recoveryLags[0]), freshAfter))
	}, thousandths, "≤", 1.2)
	for _, lag := range recoveryLags {
		add(freshFirst, "lag "+thousands(float64(lag))+": the gap is closed after, s", func(r *results, way string) quantity {
			return r.quantity(freshFirst, behindBy(way, lag), gapClosed)
		}, thousandths, "", 0)
	}
	add(gapOfWaits, "first fresh result, s", func(r *results, way string) quantity { return r.quantity(gapOfWaits, way, freshAfter) }, thousandths, "", 0)
	add(gapOfWaits, "the gap is closed after, s", func(r *results, way string) quantity { return r.quantity(gapOfWaits, way, gapClosed) }, thousandths, "", 0)
	add(gapOfWaits, "the same ÷ that of serial catch-up", func(r *results, way string) quantity {
		return r.quantity(gapOfWaits, way, gapClosed).over(r.quantity(gapOfWaits, onOnePath, gapClosed))
	}, thousandths, "≤", .6)
	return rows
}

// recoveryMarkdown is the table of the recovery benchmark, and what it rests on.
func (r *results) recoveryMarkdown() string {
	return r.troubleMarkdown(recoveryColumns, recoveryRows(), recoveries())
}
