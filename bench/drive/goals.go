package main

import "fmt"

// goal is one thing to reach: a figure of ours, against a peer's in the same workload or against a number.
type goal struct {
	workload string
	figure   figure
	peer     string // "": bound is the number itself
	bound    float64
	atLeast  bool // or at most
}

// goals is all that has to be reached.
var goals = []goal{
	{workload: "map", figure: cpu, peer: franz, bound: .65},
	{workload: "map", figure: cpu, peer: ks, bound: .2},
	{workload: "map", figure: rate, peer: franz, bound: 1.2, atLeast: true},
	{workload: "count", figure: cpu, peer: ks, bound: .12},
	{workload: "count", figure: rate, peer: ks, bound: 6, atLeast: true},
	{workload: "count", figure: rss, peer: goka, bound: 1},
	{workload: "count, paced", figure: cpu, peer: ks, bound: .25},
	{workload: "count, each update", figure: cpu, peer: goka, bound: .2},
	{workload: "wordcount", figure: cpu, peer: ks, bound: .15},
	{workload: "restore", figure: cpu, peer: ks, bound: .4},
	{workload: "restore", figure: rate, peer: ks, bound: 1.5, atLeast: true},
	{workload: "start", figure: first, bound: .5},
	{workload: smallHeap, figure: rss, peer: ks, bound: .4},
	{workload: smallHeap, figure: rss, peer: goka, bound: 1},
}

// String is the goal as the column "to reach" has it.
func (g goal) String() string {
	sign := "≤"
	if g.atLeast {
		sign = "≥"
	}
	if g.peer == "" {
		return fmt.Sprintf("%s %g", sign, g.bound)
	}
	return fmt.Sprintf("%s %g× %s", sign, g.bound, g.peer)
}

// reached judges our figure; peer is the peer's, and is not looked at where the goal is a number.
func (g goal) reached(our, peer float64) bool {
	bound := g.bound
	if g.peer != "" {
		bound *= peer
	}
	if g.atLeast {
		return our >= bound
	}
	return our <= bound
}

// goalsOf are the goals of a row.
func goalsOf(workload string, f figure) []goal {
	var of []goal
	for _, g := range goals {
		if g.workload == workload && g.figure == f {
			of = append(of, g)
		}
	}
	return of
}
