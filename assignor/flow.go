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
	level  []int // hops from the source along cheapest paths, 0 if there is none
	next   []int
}

func newFlow(nodes int) *flow {
	return &flow{head: make([][]int, nodes), dist: make([]int64, nodes), queued: make([]bool, nodes), level: make([]int, nodes), next: make([]int, nodes)}
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

// run fills the network: as long as there are paths, all of the least cost at once, the shortest of them first.
func (f *flow) run(source, sink int) {
	for f.measure(source, sink) {
		for f.rank(source, sink) {
			clear(f.next)
			f.push(source, sink, math.MaxInt)
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

// cheapest says whether an edge from u has room and lies on a cheapest path.
func (f *flow) cheapest(u, e int) bool {
	return f.room[e] > 0 && f.dist[f.to[e]] == f.dist[u]+f.cost[e]
}

// rank counts hops along cheapest paths, so that push cannot go round in circles that cost nothing.
func (f *flow) rank(source, sink int) bool {
	clear(f.level)
	f.level[source] = 1
	queue := []int{source}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		for _, e := range f.head[u] {
			if w := f.to[e]; f.level[w] == 0 && f.cheapest(u, e) {
				f.level[w] = f.level[u] + 1
				queue = append(queue, w)
			}
		}
	}
	return f.level[sink] > 0
}

// push sends as much as it can from u to the sink.
func (f *flow) push(u, sink, most int) int {
	if u == sink {
		return most
	}
	sent := 0
	for ; f.next[u] < len(f.head[u]); f.next[u]++ {
		e := f.head[u][f.next[u]]
		w := f.to[e]
		if f.level[w] != f.level[u]+1 || !f.cheapest(u, e) {
			continue
		}
		got := f.push(w, sink, min(most-sent, f.room[e]))
		f.room[e] -= got
		f.room[e^1] += got
		sent += got
		if sent == most {
			break
		}
	}
	return sent
}
