package main

import (
	"fmt"
	"slices"
	"strings"
)

// shownFigure is a figure as tables show it.
type shownFigure struct {
	figure figure
	title  string
	print  func(float64) string
}

// shown are the figures that tables have, in order.
var shown = []shownFigure{
	{cpu, "CPU µs/record", decimals},
	{cpuWhole, "CPU µs/record, whole run", decimals},
	{rate, "records/s", thousands},
	{rss, "peak RSS, MiB", thousands},
	{updates, "updates out", thousands},
	{first, "process start → first output, s", decimals},
	{running, "process start → running, s", decimals},
	{p50, "latency p50, ms", thousands},
	{p99, "latency p99, ms", thousands},
	{longest, "latency max, ms", thousands},
	{heap, "heap, MiB", thousands},
}

// figuresOf are those that a part's table shows; the rest is in the file of results.
var figuresOf = map[string][]figure{
	"compare": {cpu, cpuWhole, rate, rss, updates},
	"restore": {cpu, rate, rss, running},
	"latency": {p50, p99, longest, cpu, updates},
	"start":   {first},
	"heap":    {heap, rate, rss},
}

// order is that of the parts in the tables.
var order = []string{"compare", "restore", "latency", "start", "heap"}

// columns are the programs in the order of the table's columns.
var columns = []string{ours, floor, franz, sarama, ks, goka}

// cell is what there is of a program and a workload.
type cell struct {
	used      []result // these make the figures
	runs      int
	thrownOut int
	disturbed bool   // there were only disturbed runs, so they are used after all
	failed    string // why one of the runs is wrong: then there are no figures
}

// cell gathers the runs of a program and a workload.
func (r *results) cell(workload, program string) cell {
	var c cell
	var disturbed []result
	for _, one := range r.all {
		if one.Workload != workload || one.Program != program {
			continue
		}
		c.runs++
		switch {
		case one.failed():
			c.failed = fmt.Sprintf("round %d: %s", one.Round, one.Why)
		case one.Void != "":
		case one.Disturbed:
			disturbed = append(disturbed, one)
		default:
			c.used = append(c.used, one)
		}
	}
	if len(c.used) == 0 && len(disturbed) > 0 {
		c.used, c.disturbed = disturbed, true
	}
	if c.failed == "" {
		c.thrownOut = c.runs - len(c.used)
	}
	return c
}

// median is that of the figure, or false where there is none: where an output is wrong, a figure means nothing.
func (c cell) median(f figure) (float64, bool) {
	if c.failed != "" {
		return 0, false
	}
	var values []float64
	for _, r := range c.used {
		if v, ok := r.Figures[f]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2, true
	}
	return values[middle], true
}

// markdown is everything there is, as tables.
func (r *results) markdown() string {
	var b strings.Builder
	if slices.ContainsFunc(r.all, func(one result) bool { return one.Scale < 1 }) {
		b.WriteString("**Only a look:** some of these runs had a share of the records only, and their figures say nothing.\n\n")
	}
	r.figureTable(&b)
	r.growthTable(&b)
	r.runTable(&b)
	return b.String()
}

// names are the workloads of a part, in the order in which they were measured.
func (r *results) names(part string) []string {
	var names []string
	for _, one := range r.all {
		if one.Part == part && !slices.Contains(names, one.Workload) {
			names = append(names, one.Workload)
		}
	}
	return names
}

func (r *results) figureTable(b *strings.Builder) {
	fmt.Fprintf(b, "| workload | figure | %s | ratio | to reach | |\n|---|---|%s---|---|---|\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
	for _, part := range order {
		for _, workload := range r.names(part) {
			for _, f := range figuresOf[part] {
				r.row(b, workload, f)
			}
		}
	}
}

func (r *results) row(b *strings.Builder, workload string, f figure) {
	s := shown[slices.IndexFunc(shown, func(s shownFigure) bool { return s.figure == f })]
	texts, any := []string{workload, s.title}, false
	for _, program := range columns {
		text := ""
		c := r.cell(workload, program)
		if v, ok := c.median(f); ok {
			text, any = s.print(v), true
			if c.disturbed {
				text += " ~"
			}
		} else if c.failed != "" {
			text, any = "**failed**", true
		}
		texts = append(texts, text)
	}
	if !any {
		return
	}
	ratio, reach, word := r.judge(workload, f)
	fmt.Fprintf(b, "| %s |\n", strings.Join(append(texts, ratio, reach, word), " | "))
}

// judge is the row's ratios to the peers, what is to be reached, and whether it is.
func (r *results) judge(workload string, f figure) (ratio, reach, word string) {
	our, have := r.cell(workload, ours).median(f)
	var ratios, reaches, words []string
	for _, peer := range columns[1:] {
		if v, ok := r.cell(workload, peer).median(f); ok && have && v > 0 && f != updates && f != heap {
			ratios = append(ratios, fmt.Sprintf("%.2f× %s", our/v, peer))
		}
	}
	of := goalsOf(workload, f)
	for _, g := range of {
		reaches = append(reaches, g.String())
		word := "**missed**"
		v, ok := r.cell(workload, g.peer).median(f)
		switch {
		case !have || (g.peer != "" && !ok):
			word = "not measured"
		case g.reached(our, v):
			word = "reached"
		}
		if r.cell(workload, ours).disturbed || r.cell(workload, g.peer).disturbed {
			word += " ~"
		}
		if len(of) > 1 {
			word += " (" + g.peer + ")"
		}
		words = append(words, word)
	}
	return strings.Join(ratios, ", "), strings.Join(reaches, ", "), strings.Join(words, ", ")
}

// growthTable has a line for each size, of our program.
func (r *results) growthTable(b *strings.Builder) {
	names := r.names("growth")
	if len(names) == 0 {
		return
	}
	fields := []figure{cpu, cpuWhole, rate, rss, updates}
	fmt.Fprint(b, "\n| growth |")
	for _, f := range fields {
		fmt.Fprintf(b, " %s |", shown[slices.IndexFunc(shown, func(s shownFigure) bool { return s.figure == f })].title)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---:|", len(fields)))
	for _, name := range names {
		c := r.cell(name, ours)
		fmt.Fprintf(b, "| %s |", name)
		for _, f := range fields {
			text := ""
			if v, ok := c.median(f); ok {
				text = shown[slices.IndexFunc(shown, func(s shownFigure) bool { return s.figure == f })].print(v)
			}
			if c.failed != "" {
				text = "**failed**"
			}
			if c.disturbed {
				text += " ~"
			}
			fmt.Fprintf(b, " %s |", text)
		}
		fmt.Fprintln(b)
	}
}

// runTable says what the figures rest on.
func (r *results) runTable(b *strings.Builder) {
	fmt.Fprint(b, "\n| workload | program | records | runs used | thrown out | other programs, cores | |\n|---|---|---:|---:|---:|---:|---|\n")
	for _, part := range append(slices.Clone(order), "growth") {
		for _, workload := range r.names(part) {
			for _, program := range columns {
				c := r.cell(workload, program)
				if c.runs == 0 {
					continue
				}
				note := ""
				switch {
				case c.failed != "":
					note = "**failed**, " + inOneCell(c.failed)
				case len(c.used) == 0:
					note = "no run told anything"
				case c.disturbed:
					note = "~ all were disturbed, used all the same"
				}
				records, others := 0, 0.
				for _, one := range c.used {
					records, others = one.Records, max(others, one.OtherCores)
				}
				fmt.Fprintf(b, "| %s | %s | %s | %d | %d | ≤ %.2f | %s |\n", workload, program, thousands(float64(records)), len(c.used), c.thrownOut, others, note)
			}
		}
	}
}

func decimals(x float64) string { return fmt.Sprintf("%.2f", x) }

// thousands prints a whole number with separators.
func thousands(x float64) string {
	digits := fmt.Sprintf("%.0f", x)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
