package main

import (
	"fmt"
	"slices"
	"strings"
)

// rebalanceMarkdown is the comparison of the rebalance scenarios, and what it rests on.
func (r *results) rebalanceMarkdown() string {
	var b strings.Builder
	if slices.ContainsFunc(r.all, func(one result) bool { return one.Scale < 1 }) {
		b.WriteString("**Only a look:** some of these runs had a small state, a light load and short windows, and their figures say nothing.\n\n")
	}
	fmt.Fprintf(&b, "| scenario | figure | %s | %s | ratio | to reach | |\n|---|---|---:|---:|---:|---|---|\n", ours, ks)
	names := r.scenarios()
	for _, name := range names {
		for _, f := range rebalanceRows {
			r.rebalanceRow(&b, name, f)
		}
	}
	b.WriteString("\n| scenario | program | keys | time between outputs of a partition, p50 and p99, ms | outputs repeated | records counted twice | longest silence of the load, s | other programs, cores | |\n|---|---|---:|---:|---:|---:|---:|---:|---|\n")
	for _, name := range names {
		for _, program := range []string{ours, ks} {
			r.rebalanceRun(&b, name, program)
		}
	}
	return b.String()
}

// scenarios are those that were measured, in the order of the parts.
func (r *results) scenarios() []string {
	var names []string
	for _, w := range slices.Concat(reshuffles(), moreReshuffles()) {
		names = append(names, w.name)
	}
	return slices.DeleteFunc(append(names, assigning), func(name string) bool {
		return !slices.ContainsFunc(r.all, func(one result) bool { return one.Workload == name })
	})
}

func (r *results) rebalanceRow(b *strings.Builder, name string, f figure) {
	s := rebalanceTitles[f]
	texts, any := []string{name, s.title}, false
	for _, program := range []string{ours, ks} {
		c := r.cell(name, program)
		text := ""
		if v, ok := c.median(f); ok {
			text, any = s.print(v), true
			if c.disturbed {
				text += " ~"
			}
		} else if c.failed != "" {
			text = "**failed**"
		}
		texts = append(texts, text)
	}
	of := slices.DeleteFunc(slices.Clone(rebalanceGoals), func(g goal) bool { return g.workload != name || g.figure != f })
	if !any && len(of) == 0 {
		return
	}
	ratio, reach, word := r.judgeRebalance(name, f, of)
	fmt.Fprintf(b, "| %s |\n", strings.Join(append(texts, ratio, reach, word), " | "))
}

// judgeRebalance is the row's ratio, what is to be reached, and whether it is. One word stands for several goals, so that it is reached when all are.
func (r *results) judgeRebalance(name string, f figure, of []goal) (ratio, reach, word string) {
	our, theirs := r.cell(name, ours), r.cell(name, ks)
	v, have := our.median(f)
	peer, other := theirs.median(f)
	if have && other && peer > 0 {
		ratio = fmt.Sprintf("%.2f×", v/peer)
	}
	var reaches []string
	missed, unknown := false, false
	for _, g := range of {
		reaches = append(reaches, g.String())
		switch {
		case !have || (g.peer != "" && !other):
			unknown = true
		case !g.reached(v, peer):
			missed = true
		}
	}
	switch {
	case len(of) == 0:
	case our.failed != "", missed:
		word = "**missed**"
	case unknown:
		word = "not measured"
	default:
		word = "reached"
	}
	if word != "" && (our.disturbed || theirs.disturbed) {
		word += " ~"
	}
	return ratio, strings.Join(reaches, " and "), word
}

// rebalanceRun is a line on what a program's figures rest on.
func (r *results) rebalanceRun(b *strings.Builder, name, program string) {
	c := r.cell(name, program)
	if c.runs == 0 || name == assigning {
		return
	}
	last := result{}
	for _, one := range r.all {
		if one.Workload == name && one.Program == program {
			last = one
		}
	}
	note := fmt.Sprintf("%d of %d runs used", len(c.used), c.runs)
	switch {
	case c.failed != "":
		note = "**failed**, " + inOneCell(c.failed)
	case c.disturbed:
		note += " ~ all were disturbed, used all the same"
	case last.Void != "":
		note += "; void: " + inOneCell(last.Void)
	}
	for _, n := range last.Notes {
		if strings.Contains(n, "not balanced") {
			note += "; " + n
		}
	}
	value := func(f figure, print func(float64) string) string {
		if v, ok := last.Figures[f]; ok {
			return print(v)
		}
		return ""
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s, %s | %s | %s | %s | %.2f | %s |\n", name, program, thousands(float64(last.Records)), value(every, thousands),
		value(everyP99, thousands), value(repeats, thousands), value(overcounted, thousands), value(loadSilence, thousandths), last.OtherCores, note)
}

func thousandths(x float64) string { return fmt.Sprintf("%.3f", x) }

// inOneCell is a text without what would break the table.
func inOneCell(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
}
