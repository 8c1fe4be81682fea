package main

import (
	"fmt"
	"slices"
	"strings"
)

// column is a figure of the table.
type column struct {
	title string
	of    func(result) float64
	print func(float64) string
}

var columns = []column{
	{"CPU s per million", func(r result) float64 { return r.CPUPerMillionSteady }, decimals},
	{"CPU, whole", func(r result) float64 { return r.CPUPerMillion }, decimals},
	{"records/s", func(r result) float64 { return r.RecordsPerSecondSteady }, thousands},
	{"peak RSS, MiB", func(r result) float64 { return r.PeakRSSMiB }, thousands},
}

// markdown is one table of medians over the rounds, each figure with its ratio to ours.
func markdown(results []result) string {
	var b strings.Builder
	b.WriteString("| workload | program |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString(" output |\n|---|---|" + strings.Repeat("---:|", len(columns)) + "---|\n")
	for _, rows := range group(results) {
		fmt.Fprintf(&b, "| %s, %s | %s |", rows[0].Workload, thousands(float64(rows[0].Records)), rows[0].Program)
		base := find(results, rows[0].Workload, ours)
		for _, c := range columns {
			b.WriteString(" " + c.cell(rows, base) + " |")
		}
		b.WriteString(" " + verdict(rows) + " |\n")
	}
	return b.String()
}

// cell is the median of rows and its ratio to that of base; empty where an output is wrong, for such a figure means nothing.
func (c column) cell(rows, base []result) string {
	if !verified(rows) {
		return ""
	}
	text := c.print(c.median(rows))
	if verified(base) && rows[0].Program != ours {
		text += fmt.Sprintf(" (%.2f×)", c.median(rows)/c.median(base))
	}
	return text
}

func (c column) median(rows []result) float64 {
	var values []float64
	for _, r := range rows {
		values = append(values, c.of(r))
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

func verified(rows []result) bool {
	return len(rows) > 0 && !slices.ContainsFunc(rows, func(r result) bool { return !r.Verified })
}

func verdict(rows []result) string {
	for _, r := range rows {
		if !r.Verified {
			return "**failed** (round " + fmt.Sprint(r.Round) + "): " + strings.Join(strings.Fields(strings.ReplaceAll(r.Why, "|", "/")), " ")
		}
	}
	return fmt.Sprintf("verified %d of %d", len(rows), len(rows))
}

// group puts the rounds of a program and workload together, in the order in which they first appear.
func group(results []result) [][]result {
	var groups [][]result
	for _, r := range results {
		i := slices.IndexFunc(groups, func(g []result) bool { return g[0].Workload == r.Workload && g[0].Program == r.Program })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func find(results []result, workload, program string) []result {
	return slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.Workload != workload || r.Program != program })
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
