package main

import (
	"fmt"
	"slices"
	"strings"
)

// The figures of the failure benchmark.
const (
	goodPerS     figure = "good_per_s"
	goodShare    figure = "good_out_per_in"
	decay        figure = "last_third_per_first"
	unburied     figure = "not_yet_dead_letters"
	failedPerS   figure = "failed_per_s"
	cores        figure = "cores"         // that the program keeps busy
	machineCores figure = "machine_cores" // that all programs do
	took         figure = "took_s"
	ideal        figure = "ideal_s" // the same sleeps on goroutines (threads) alone
	earliest     figure = "earliest_ms"
	early        figure = "early" // records
	dueP50       figure = "due_p50_ms"
	dueP99       figure = "due_p99_ms"
	dueLast      figure = "due_last_ms"
	p99Without   figure = "p99_without_ms"
)

// quantity is a figure, or one that is made of several; disturbed if one of these was.
type quantity struct {
	v                float64
	known, disturbed bool
	failed           string
}

func (q quantity) with(other quantity, f func(a, b float64) float64) quantity {
	r := quantity{known: q.known && other.known, disturbed: q.disturbed || other.disturbed, failed: q.failed}
	if r.failed == "" {
		r.failed = other.failed
	}
	if r.known {
		r.v = f(q.v, other.v)
	}
	return r
}

func (q quantity) over(other quantity) quantity {
	return q.with(other, func(a, b float64) float64 { return a / b })
}

// quantity is the median of a figure of a variant.
func (r *results) quantity(workload, variant string, f figure) quantity {
	c := r.cell(workload, variant)
	v, ok := c.median(f)
	return quantity{v, ok, c.disturbed, c.failed}
}

// failureRow is a row of the table.
type failureRow struct {
	workload string
	title    string
	of       func(r *results, program string) quantity // for ours and, where others do it, for them
	print    func(float64) string
	bound    float64 // to reach
	goal     string  // ≥, ≤ or nothing
}

// failureColumns are the programs of the table.
var failureColumns = []string{ours, sarama, pc}

func failureRows() []failureRow {
	// of ours alone, from the variants of a workload
	mine := func(f func(r *results) quantity) func(*results, string) quantity {
		return func(r *results, program string) quantity {
			if program != ours {
				return quantity{}
			}
			return f(r)
		}
	}
	figureOf := func(workload, variant string, f figure) func(*results, string) quantity {
		return mine(func(r *results) quantity { return r.quantity(workload, variant, f) })
	}
	var rows []failureRow
	add := func(workload, title string, of func(*results, string) quantity, print func(float64) string, goal string, bound float64) {
		rows = append(rows, failureRow{workload, title, of, print, bound, goal})
	}
	for _, l := range []struct{ share, least float64 }{{.01, .98}, {.1, .95}, {.5, .9}} {
		name := level(l.share)
		add(besideFailing, name+": rate of the good ones ÷ rate without", mine(func(r *results) quantity {
			return r.quantity(besideFailing, name, goodPerS).over(r.quantity(besideFailing, level(0), goodPerS))
		}), thousandths, "≥", l.least)
		add(besideFailing, name+": their rate in the last third ÷ in the first", figureOf(besideFailing, name, decay), thousandths, "≥", l.least)
		add(besideFailing, name+": of those not dead letters 30 s later", figureOf(besideFailing, name, unburied), thousands, "≤", 0)
		add(besideFailing, name+": p99 latency of the good ones, ms", figureOf(besideFailing, name, p99), decimals, "", 0)
		add(besideFailing, name+": CPU µs a failed record", mine(func(r *results) quantity {
			more := r.quantity(besideFailing, name, cores).with(r.quantity(besideFailing, level(0), cores), func(a, b float64) float64 { return a - b })
			return more.over(r.quantity(besideFailing, name, failedPerS)).with(quantity{v: 1e6, known: true}, func(a, b float64) float64 { return a * b })
		}), decimals, "", 0)
		add(besideFailing, name+": cores busy, all programs", figureOf(besideFailing, name, machineCores), decimals, "", 0)
	}
	for _, w := range []string{unordered, byKey} {
		add(w, "rate ÷ that of the same sleeps without Kafka", func(r *results, program string) quantity {
			return r.quantity(w, program, ideal).over(r.quantity(w, program, took))
		}, thousandths, "≥", .95)
	}
	add(oneKey, "time ÷ that of the same sleeps one after the other (sarama: a plain loop)", func(r *results, program string) quantity {
		return r.quantity(oneKey, program, took).over(r.quantity(oneKey, program, ideal))
	}, thousandths, "≤", 1.03)
	quick, slow := calls(quickCall), calls(slowCall)
	add(slowCalls, "rate at 200 ms and 1,000 workers ÷ at 10 ms and 50", mine(func(r *results) quantity {
		return r.quantity(slowCalls, quick, took).over(r.quantity(slowCalls, slow, took))
	}), thousandths, "≥", .9)
	for _, v := range []string{quick, slow} {
		add(slowCalls, v+": rate ÷ that of the same sleeps without Kafka", mine(func(r *results) quantity {
			return r.quantity(slowCalls, v, ideal).over(r.quantity(slowCalls, v, took))
		}), thousandths, "", 0)
	}
	add(delayed, "actual − due, p99, ms", figureOf(delayed, ours, dueP99), decimals, "≤", 50)
	add(delayed, "records that came early", figureOf(delayed, ours, early), thousands, "≤", 0)
	add(delayed, "actual − due, earliest, ms", figureOf(delayed, ours, earliest), decimals, "", 0)
	add(delayed, "actual − due, p50, ms", figureOf(delayed, ours, dueP50), decimals, "", 0)
	add(delayed, "actual − due, latest, ms", figureOf(delayed, ours, dueLast), decimals, "", 0)
	add(besideParked, "p99 latency with them ÷ without", mine(func(r *results) quantity {
		return r.quantity(besideParked, ours, p99).over(r.quantity(besideParked, ours, p99Without))
	}), thousandths, "≤", 1.1)
	add(besideParked, "p99 latency without, ms", figureOf(besideParked, ours, p99Without), decimals, "", 0)
	for _, policy := range policies {
		add(policyCost, policy+": CPU ns a record more than with Stop", figureOf(policyCost, ours, more(policy)), decimals, "", 0)
		add(policyCost, policy+": CPU ÷ that with Stop, of the whole map", mine(func(r *results) quantity {
			all := r.quantity(whole, ours, cpu)
			return r.quantity(policyCost, ours, more(policy)).with(all, func(ns, us float64) float64 { return (us*1e3 + ns) / (us * 1e3) })
		}), thousandths, "≤", 1.02)
		add(policyCost, policy+": allocations a record more than with Stop", figureOf(policyCost, ours, allocations(policy)), decimals, "≤", 0)
	}
	add(holeMap, "widest map that fits in the metadata, records at random", figureOf(holeMap, ours, widest), thousands, "≥", 24_576)
	add(holeMap, "encoding, slowest case, µs", figureOf(holeMap, ours, encoding), decimals, "≤", 50)
	return rows
}

// failureMarkdown is the table of the failure benchmark, and what it rests on.
func (r *results) failureMarkdown() string {
	return r.troubleMarkdown(failureColumns, failureRows(), failures())
}

// troubleMarkdown is a table of such rows, and what they rest on.
func (r *results) troubleMarkdown(columns []string, rows []failureRow, workloads []workload) string {
	var b strings.Builder
	if slices.ContainsFunc(r.all, func(one result) bool { return one.Scale < 1 }) {
		b.WriteString("**Only a look:** some of these runs were short, and their figures say nothing.\n\n")
	}
	fmt.Fprintf(&b, "| | figure | %s | to reach | |\n|---|---|%s---|---|\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
	for _, row := range rows {
		r.failureRow(&b, columns, row)
	}
	b.WriteString("\n| | variant | records | runs used | thrown out | other programs, cores | took, s | |\n|---|---|---:|---:|---:|---:|---:|---|\n")
	for _, w := range workloads {
		names := w.programs
		if w.trouble != nil {
			for _, v := range w.trouble.variants {
				names = append(names, v.name)
			}
		}
		for _, name := range names {
			r.failureRun(&b, w.name, name)
		}
	}
	return b.String()
}

func (r *results) failureRow(b *strings.Builder, columns []string, row failureRow) {
	var texts []string
	for _, program := range columns {
		q := row.of(r, program)
		text := ""
		switch {
		case q.failed != "":
			text = "**failed**"
		case q.known:
			text = row.print(q.v)
			if q.disturbed {
				text += " ~"
			}
		}
		texts = append(texts, text)
	}
	reach, word := "", ""
	if row.goal != "" {
		reach = row.goal + " " + thousandsOr(row.bound)
		word = row.word(row.of(r, ours))
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", row.workload, row.title, strings.Join(texts, " | "), reach, word)
}

// thousandsOr prints a bound, with separators where it is large.
func thousandsOr(bound float64) string {
	if bound >= 1_000 {
		return thousands(bound)
	}
	return fmt.Sprintf("%g", bound)
}

// word says whether the goal is reached.
func (row failureRow) word(q quantity) string {
	word := "**missed**"
	switch {
	case q.failed != "":
	case !q.known:
		return "not measured"
	case row.goal == "≥" && q.v >= row.bound, row.goal == "≤" && q.v <= row.bound:
		word = "reached"
	}
	if q.disturbed {
		word += " ~"
	}
	return word
}

// failureRun is a line on what the figures of a variant rest on.
func (r *results) failureRun(b *strings.Builder, workload, variant string) {
	c := r.cell(workload, variant)
	if c.runs == 0 {
		return
	}
	note := ""
	switch {
	case c.failed != "":
		note = "**failed**, " + inOneCell(c.failed)
	case len(c.used) == 0:
		note = "no run told anything: " + inOneCell(r.lastVoid(workload, variant))
	case c.disturbed:
		note = "~ all were disturbed, used all the same"
	}
	records, others, last := 0, 0., ""
	for _, one := range c.used {
		records, others = one.Records, max(others, one.OtherCores)
		for _, n := range one.Notes {
			last = n
		}
	}
	if note == "" {
		note = inOneCell(last)
	}
	took, text := r.quantity(workload, variant, took), ""
	if took.known {
		text = decimals(took.v)
	}
	fmt.Fprintf(b, "| %s | %s | %s | %d | %d | ≤ %.2f | %s | %s |\n", workload, variant, thousands(float64(records)), len(c.used), c.thrownOut, others, text, note)
}

func (r *results) lastVoid(workload, variant string) (why string) {
	for _, one := range r.all {
		if one.Workload == workload && one.Program == variant && one.Void != "" {
			why = one.Void
		}
	}
	return why
}

// failureText is what a line of the log says of a result's figures.
func failureText(f map[figure]float64) string {
	var b strings.Builder
	for _, name := range []figure{goodPerS, goodShare, decay, unburied, cores, machineCores, took, ideal, earliest, early, dueP50, dueP99, dueLast, p99Without, freshAfter, gapClosed} {
		if v, ok := f[name]; ok {
			fmt.Fprintf(&b, " %s %.3f", name, v)
		}
	}
	return b.String()
}
