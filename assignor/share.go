package assignor

import "math"

// shares says how many tasks of each subtopology every member shall have. Members take part by weight, so the exact shares are fractions;
// each is rounded up or down such that every member's stateful tasks and its tasks in total are its exact sum rounded up or down too, and
// such that as few tasks as possible move. Such a rounding always exists: it is a flow, and flows with whole bounds have whole solutions.
type shares struct {
	want [][]int // by subtopology and member
}

// demand is what the rounding starts from.
type demand struct {
	weights  []int
	slow     []bool  // members that learned in vain
	stateful []bool  // by subtopology
	tasks    []int   // by subtopology: tasks to hand out
	have     [][]int // by subtopology and member: homes now
	fresh    [][]int // of those, tasks that came just now, or whose move has begun, and that should not move again
	form     [][]form
	// caughtUp says which members are caught up with a task of those that have too many of a subtopology.
	caughtUp func(s int, over []bool) []bool
}

// exact is a share before rounding: whole tasks for sure, and a fraction of one more.
type exact struct {
	whole int
	rest  float64
}

func share(d demand) shares {
	n := len(d.weights)
	rows := make([][]exact, len(d.tasks))
	all, state := make([]float64, n), make([]float64, n)
	for s := range d.tasks {
		rows[s] = d.split(s)
		for m, x := range rows[s] {
			all[m] += x.rest
			if d.stateful[s] {
				state[m] += x.rest
			}
		}
	}
	out := shares{want: make([][]int, len(d.tasks))}
	up := roundRows(d, rows, all, state)
	for s := range rows {
		out.want[s] = make([]int, n)
		for m, x := range rows[s] {
			out.want[s][m] = x.whole
			if up[s][m] {
				out.want[s][m]++
			}
		}
	}
	return out
}

// split deals the tasks of one subtopology out by weight. Who only keeps gets no more than it has, and what it does not take goes to the rest.
func (d demand) split(s int) []exact {
	out := make([]exact, len(d.weights))
	left, weight := d.tasks[s], 0
	in := make([]bool, len(d.weights))
	canTake := false
	for m, f := range d.form[s] {
		canTake = canTake || f == takes
		if in[m] = f == takes || f == keeps && d.have[s][m] > 0; in[m] {
			weight += d.weights[m]
		}
	}
	for again := true; again; {
		again = false
		for m := range in {
			if have := d.have[s][m]; in[m] && d.form[s][m] == keeps && (!canTake || have*weight <= left*d.weights[m]) {
				out[m].whole, in[m], again = have, false, true
				left, weight = left-have, weight-d.weights[m]
			}
		}
	}
	for m := range in {
		if in[m] {
			x := left * d.weights[m]
			out[m] = exact{whole: x / weight, rest: float64(x%weight) / float64(weight)}
		}
	}
	return out
}

// over are the members that have more than their share, rounded down, of a subtopology.
func (d demand) over(s int, row []exact) []bool {
	out := make([]bool, len(row))
	for m, x := range row {
		out[m] = d.have[s][m] > x.whole
	}
	return out
}

// preference is the order in which members are rounded up, all else being equal: of those who would have to give a task away the last keep it,
// so that the tasks with the lowest numbers move; of the others the first get one, and those
// that learned in vain come last.
func (d demand) preference(s int, row []exact) (order []int) {
	for m := len(row) - 1; m >= 0; m-- {
		if d.have[s][m] > row[m].whole {
			order = append(order, m)
		}
	}
	for _, slow := range []bool{false, true} {
		for m, x := range row {
			if d.have[s][m] <= x.whole && d.slow[m] == slow {
				order = append(order, m)
			}
		}
	}
	return order
}

// roundRows decides which fractions are rounded up.
func roundRows(d demand, rows [][]exact, all, state []float64) [][]bool {
	n, s := len(d.weights), len(rows)
	g := newFlow(2 + s + 2*n)
	source, sink := 0, 1
	row := func(i int) int { return 2 + i }
	stateNode := func(m int) int { return 2 + s + m }
	node := func(m int) int { return 2 + s + n + m }

	move := int64(s*n + 1)
	big := (move + 1) * move
	bounded := func(from, to int, sum float64) { // rounded down for sure, rounded up if need be
		low := int(math.Floor(sum + 1e-6))
		g.add(from, to, low, -big)
		g.add(from, to, int(math.Ceil(sum-1e-6))-low, 0)
	}
	edges := make([][]int, s)
	for i := range rows {
		edges[i] = make([]int, n)
		near := d.caughtUp(i, d.over(i, rows[i]))
		sum := 0.0
		for _, m := range d.preference(i, rows[i]) {
			x := rows[i][m]
			edges[i][m] = -1
			if x.rest == 0 {
				continue
			}
			sum += x.rest
			cost := int64(0)
			if near[m] { // what moves there needs not be learned
				cost = -1
			}
			if over := d.have[i][m] - x.whole; over > 0 { // rounding up saves a move
				cost = -move
				if d.have[i][m]-d.fresh[i][m] < over { // and spares one that should not move again
					cost--
				}
			}
			to := node(m)
			if d.stateful[i] {
				to = stateNode(m)
			}
			edges[i][m] = g.add(row(i), to, 1, cost)
		}
		g.add(source, row(i), int(math.Round(sum)), 0)
	}
	for m := range n {
		bounded(stateNode(m), node(m), state[m])
		bounded(node(m), sink, all[m])
	}
	g.run(source, sink)

	up := make([][]bool, s)
	for i := range edges {
		up[i] = make([]bool, n)
		for m, e := range edges[i] {
			up[i][m] = e >= 0 && g.used(e)
		}
	}
	return up
}
