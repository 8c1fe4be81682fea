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
	ID        string      `json:"subtopologyId"`
	OnFailure jsonFailure `json:"onFailure"`
	Nodes     []jsonNode  `json:"nodes"`
}

// jsonFailure is what becomes of records that fail, and where they are.
type jsonFailure struct {
	Mode        string            `json:"mode"`
	Then        string            `json:"then"`
	Workers     int               `json:"workers,omitzero"`
	RetryTopic  string            `json:"retryTopic,omitempty"`
	DeadLetters map[string]string `json:"deadLetters,omitempty"` // by source topic
	Redrives    map[string]string `json:"redrives,omitempty"`    // by source topic
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
		sub := jsonSubtopology{ID: fmt.Sprint(d.number), OnFailure: d.sub.jsonFailure()}
		for _, n := range d.nodes {
			sub.Nodes = append(sub.Nodes, n.json())
		}
		out.Subtopologies = append(out.Subtopologies, sub)
	}
	return json.Marshal(out, json.Deterministic(true), jsontext.Multiline(true))
}

func (sub *subtopology) jsonFailure() jsonFailure {
	set, spec := sub.failure.Settings(), sub.spec
	out := jsonFailure{Mode: set.Mode.String(), Then: set.Then.String()}
	if set.Workers > 1 {
		out.Workers = set.Workers
	}
	if spec.Retries > 0 {
		out.RetryTopic = spec.Stores[spec.Retries-1].Changelog
	}
	for _, in := range spec.Inputs {
		if in.Redrives == 0 {
			continue
		}
		if out.DeadLetters == nil {
			out.DeadLetters, out.Redrives = make(map[string]string), make(map[string]string)
		}
		source := sub.sourceOf(spec.Inputs[in.Redrives-1].Topic)
		out.DeadLetters[source], out.Redrives[source] = spec.Dests[in.DeadLetters-1].Topic, in.Topic
	}
	return out
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
			if n.step.kind == sourceStep {
				edges = append(edges, d.sub.failureEdges(n)...)
			}
		}
		for _, store := range n.stores {
			thing := "store " + store
			edges = append(edges, outerEdge{thing: thing, label: store, shape: storeShape, from: n.step.name, to: thing})
		}
	}
	return edges
}

// failureEdges join a source with where its records are when they have failed.
func (sub *subtopology) failureEdges(n *describedNode) (edges []outerEdge) {
	name := n.step.name
	if sub.spec.Retries > 0 {
		store := sub.retryStore()
		edges = append(edges, outerEdge{thing: "store " + store, label: store, shape: storeShape, from: name, to: "store " + store})
	}
	for _, in := range sub.spec.Inputs {
		if in.Redrives == 0 || sub.spec.Inputs[in.Redrives-1].Topic != n.topic {
			continue
		}
		letters := sub.spec.Dests[in.DeadLetters-1].Topic
		edges = append(edges,
			outerEdge{thing: "topic " + letters, label: letters, shape: topicShape, from: name, to: "topic " + letters},
			outerEdge{thing: "topic " + in.Topic, label: in.Topic, shape: topicShape, from: "topic " + in.Topic, to: name})
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
