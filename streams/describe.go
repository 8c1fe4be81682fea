package streams

import (
	"fmt"
	"slices"
	"strings"
)

// description is one subtopology as it is shown.
type description struct {
	number int32
	sub    *subtopology
	nodes  []*describedNode // upstream first
}

// describedNode is a step as it is shown.
type describedNode struct {
	step         *step
	topic        string // of a source or sink, empty where it is computed
	stores       []string
	emission     string // of a table
	successors   []*describedNode
	predecessors []*describedNode
	size         int // nodes downstream by all paths, itself included
}

// describe computes what all forms of description show.
func (t *Topology) describe() []description {
	var all []description
	for _, sub := range t.subs {
		d := description{number: sub.number, sub: sub}
		nodes := make(map[*step]*describedNode)
		for _, s := range sub.steps {
			n := &describedNode{step: s, size: 1, emission: sub.emissionName(s)}
			if s.choose == "" && s.kind != processorStep {
				n.topic = s.topic.full(t.applicationID)
			}
			for _, def := range s.stores {
				n.stores = append(n.stores, def.name)
			}
			slices.Sort(n.stores)
			nodes[s] = n
			d.nodes = append(d.nodes, n)
			for _, p := range s.parents {
				n.predecessors = append(n.predecessors, nodes[p])
				nodes[p].successors = append(nodes[p].successors, n)
			}
		}
		d.sort()
		all = append(all, d)
	}
	return all
}

// sort puts nodes in the order in which Kafka Streams prints them: those with more behind them first, then by name.
func (d *description) sort() {
	for i := len(d.nodes) - 1; i >= 0; i-- {
		for _, s := range d.nodes[i].successors {
			d.nodes[i].size += s.size
		}
	}
	order := func(a, b *describedNode) int {
		if a.size != b.size {
			return b.size - a.size
		}
		return strings.Compare(a.step.name, b.step.name)
	}
	slices.SortFunc(d.nodes, order)
	for _, n := range d.nodes {
		slices.SortFunc(n.successors, order)
		slices.SortFunc(n.predecessors, order)
	}
}

// Describe returns the topology in the format that Kafka Streams prints, so that viewers made for it read it.
func (t *Topology) Describe() string {
	var b strings.Builder
	b.WriteString("Topologies:\n ")
	for _, d := range t.describe() {
		fmt.Fprintf(&b, "  Sub-topology: %d\n", d.number)
		for _, n := range d.nodes {
			n.write(&b)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (n *describedNode) write(b *strings.Builder) {
	switch {
	case n.step.kind == sourceStep:
		fmt.Fprintf(b, "    Source: %s (topics: [%s])\n", n.step.name, n.topic)
	case n.step.kind == processorStep:
		fmt.Fprintf(b, "    Processor: %s (stores: [%s])\n", n.step.name, strings.Join(n.stores, ", "))
	case n.topic == "":
		fmt.Fprintf(b, "    Sink: %s (extractor class: %s)\n", n.step.name, n.step.choose)
	default:
		fmt.Fprintf(b, "    Sink: %s (topic: %s)\n", n.step.name, n.topic)
	}
	if n.step.kind != sinkStep {
		fmt.Fprintf(b, "      --> %s\n", names(n.successors))
	}
	if n.step.kind != sourceStep {
		fmt.Fprintf(b, "      <-- %s\n", names(n.predecessors))
	}
}

func names(nodes []*describedNode) string {
	if len(nodes) == 0 {
		return "none"
	}
	all := make([]string, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n.step.name)
	}
	return strings.Join(all, ", ")
}
