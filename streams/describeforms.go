package streams

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
)

// The shape of KIP-1331: nodes with the edges to their successors only.
type jsonTopology struct {
	ApplicationID string            `json:"applicationId"`
	Subtopologies []jsonSubtopology `json:"subtopologies"`
}

type jsonSubtopology struct {
	ID    string     `json:"subtopologyId"`
	Nodes []jsonNode `json:"nodes"`
}

type jsonNode struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"` // SOURCE, PROCESSOR, SINK
	Topics     []string `json:"topics,omitempty"`
	Stores     []string `json:"stores,omitempty"`
	Emission   string   `json:"emission,omitempty"` // of a table: commit or update
	Successors []string `json:"successors"`
}

// DescribeJSON returns the topology as JSON: subtopologies, their nodes, and of each node its successors.
func (t *Topology) DescribeJSON() ([]byte, error) {
	out := jsonTopology{ApplicationID: t.applicationID}
	for _, d := range t.describe() {
		sub := jsonSubtopology{ID: fmt.Sprint(d.number)}
		for _, n := range d.nodes {
			sub.Nodes = append(sub.Nodes, n.json())
		}
		out.Subtopologies = append(out.Subtopologies, sub)
	}
	return json.Marshal(out, json.Deterministic(true), jsontext.Multiline(true))
}

func (n *describedNode) json() jsonNode {
	out := jsonNode{
		Name: n.step.name, Type: [...]string{"SOURCE", "PROCESSOR", "SINK"}[n.step.kind],
		Stores: n.stores, Emission: n.emission, Successors: []string{},
	}
	if n.topic != "" {
		out.Topics = []string{n.topic}
	}
	for _, s := range n.successors {
		out.Successors = append(out.Successors, s.step.name)
	}
	return out
}

// emissionName is how the table of a step emits, empty for other steps.
func (sub *subtopology) emissionName(s *step) string {
	switch {
	case s.table == nil:
		return ""
	case sub.emission(s) == EmitPerUpdate:
		return "update"
	default:
		return "commit"
	}
}

// DescribeDOT returns the topology for Graphviz. Topics are between the subtopologies that write and read them; stores are beside their
// steps.
func (t *Topology) DescribeDOT() string {
	var b strings.Builder
	b.WriteString("digraph topology {\n  node [shape=box];\n")
	for _, d := range t.describe() {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=\"Sub-topology %d\";\n", d.number, d.number)
		for _, n := range d.nodes {
			fmt.Fprintf(&b, "    %q;\n", n.step.name)
			for _, s := range n.successors {
				fmt.Fprintf(&b, "    %q -> %q;\n", n.step.name, s.step.name)
			}
		}
		b.WriteString("  }\n")
		for _, e := range d.edges() {
			fmt.Fprintf(&b, "  %q [shape=%s, label=%q];\n  %q -> %q;\n", e.thing, e.shape, e.label, e.from, e.to)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// DescribeMermaid returns the topology as a Mermaid flowchart, which Markdown viewers draw.
func (t *Topology) DescribeMermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	ids := mermaidIDs{ids: make(map[string]string)}
	for _, d := range t.describe() {
		fmt.Fprintf(&b, "  subgraph sub%d [Sub-topology %d]\n", d.number, d.number)
		for _, n := range d.nodes {
			fmt.Fprintf(&b, "    %s[\"%s\"]\n", ids.of(n.step.name), n.step.name)
		}
		for _, n := range d.nodes {
			for _, s := range n.successors {
				fmt.Fprintf(&b, "    %s --> %s\n", ids.of(n.step.name), ids.of(s.step.name))
			}
		}
		b.WriteString("  end\n")
		for _, e := range d.edges() {
			open, shut := "[/", "/]"
			if e.shape == storeShape {
				open, shut = "[(", ")]"
			}
			fmt.Fprintf(&b, "  %s%s\"%s\"%s\n  %s --> %s\n", ids.of(e.thing), open, e.label, shut, ids.of(e.from), ids.of(e.to))
		}
	}
	return b.String()
}

const (
	topicShape = "parallelogram"
	storeShape = "cylinder"
)

// outerEdge joins a node with a topic or a store.
type outerEdge struct{ thing, label, shape, from, to string }

func (d *description) edges() []outerEdge {
	var edges []outerEdge
	for _, n := range d.nodes {
		if n.topic != "" {
			e := outerEdge{thing: "topic " + n.topic, label: n.topic, shape: topicShape}
			e.from, e.to = e.thing, n.step.name
			if n.step.kind == sinkStep {
				e.from, e.to = e.to, e.from
			}
			edges = append(edges, e)
		}
		for _, store := range n.stores {
			thing := "store " + store
			edges = append(edges, outerEdge{thing: thing, label: store, shape: storeShape, from: n.step.name, to: thing})
		}
	}
	return edges
}

// mermaidIDs gives short ids to names, since Mermaid takes few characters in them.
type mermaidIDs struct{ ids map[string]string }

func (m *mermaidIDs) of(name string) string {
	id, ok := m.ids[name]
	if !ok {
		id = fmt.Sprintf("n%d", len(m.ids))
		m.ids[name] = id
	}
	return id
}
