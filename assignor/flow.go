package assignor

import "math"

// flow is a network whose cheapest greatest flow it finds. Costs may be negative as long as the network has no cycle at the start.
type flow struct {
	head [][]int // edges by node they leave
	to   []int
	room []int
	cost []int64

	dist   []int64
	queued []bool
	onPath []bool
	next   []int
}

func newFlow(nodes int) *flow {
	return &flow{head: make([][]int, nodes), dist: make([]int64, nodes), queued: make([]bool, nodes), onPath: make([]bool, nodes), next: make([]int, nodes)}
}

// add puts an edge in and returns its number; the edge back has the number after it.
func (f *flow) add(from, to, room int, cost int64) int {
	e := len(f.to)
	f.to = append(f.to, to, from)
	f.room = append(f.room, room, 0)
	f.cost = append(f.cost, cost, -cost)
	f.head[from] = append(f.head[from], e)
	f.head[to] = append(f.head[to], e+1)
	return e
}

// used says whether anything flows through an edge.
func (f *flow) used(e int) bool { return f.room[e+1] > 0 }

// run fills the network: again and again all paths of the least cost at once.
func (f *flow) run(source, sink int) {
	for f.measure(source, sink) {
		for {
			clear(f.next)
			clear(f.onPath)
			if f.push(source, sink, math.MaxInt) == 0 {
				break
			}
		}
	}
}

// measure finds the least cost from the source to every node (Bellman and Ford, with a queue).
func (f *flow) measure(source, sink int) bool {
	for i := range f.dist {
		f.dist[i] = math.MaxInt64
	}
	f.dist[source] = 0
	queue := []int{source}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		f.queued[u] = false
		for _, e := range f.head[u] {
			w := f.to[e]
			if d := f.dist[u] + f.cost[e]; f.room[e] > 0 && d < f.dist[w] {
				f.dist[w] = d
				if !f.queued[w] {
					f.queued[w] = true
					queue = append(queue, w)
				}
			}
		}
	}
	return f.dist[sink] != math.MaxInt64
}

// push sends as much as it can from u to the sink along edges that lie on a cheapest path.
func (f *flow) push(u, sink, most int) int {
	if u == sink {
		return most
	}
	f.onPath[u] = true
	sent := 0
	for ; f.next[u] < len(f.head[u]) && sent < most; f.next[u]++ {
		e := f.head[u][f.next[u]]
		w := f.to[e]
		if f.room[e] == 0 || f.onPath[w] || f.dist[w] != f.dist[u]+f.cost[e] {
			continue
		}
		got := f.push(w, sink, min(most-sent, f.room[e]))
		f.room[e] -= got
		f.room[e+1] += got
		sent += got
		if sent == most {
			break
		}
	}
	f.onPath[u] = false
	return sent
}
