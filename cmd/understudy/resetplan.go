package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// resetPlan is what a reset does, or has done. Its names in JSON stay the same.
type resetPlan struct {
	Group    string      `json:"group"`
	Kind     string      `json:"kind"`
	State    string      `json:"state"`
	To       string      `json:"to"`
	Applied  bool        `json:"applied"`
	Refused  string      `json:"executeRefused,omitempty"` // why -execute would do nothing now
	Parts    []resetPart `json:"partitions"`
	Gone     []string    `json:"partitionsGone,omitempty"` // of which there is an offset, and no log
	Delete   []topicRow  `json:"deletedTopics"`
	Keep     []topicRow  `json:"keptDeadLetters,omitempty"`
	Doubt    []topicRow  `json:"topicsInDoubt,omitempty"`
	Left     []topicRow  `json:"leftTopics,omitempty"` // with -offsets-only
	StateDir string      `json:"stateDir,omitempty"`
	Files    []string    `json:"deletedState,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`

	facts    *facts
	redriven bool // letters that stay have been redriven once
	inputs   []task.TopicPartition
	drop     []task.TopicPartition // offsets of what is deleted
}

// resetPart is one partition; Committed is -1 where nothing was.
type resetPart struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	To        int64  `json:"to"`
	Note      string `json:"note,omitempty"`
}

// aim says where each partition goes.
func (p *resetPlan) aim(g goal, f *facts, logs map[task.TopicPartition]bounds) {
	for _, tp := range p.inputs {
		o, _ := f.of(tp)
		part := resetPart{Topic: tp.Topic, Partition: tp.Partition, Committed: o.Offset}
		part.To, part.Note = g.target(logs[tp])
		p.Parts = append(p.Parts, part)
	}
}

// warn says what the plan leaves out.
func (p *resetPlan) warn(o *resetOrder) {
	if o.offsetsOnly && p.facts.kind.Application() && len(p.Left) > 0 {
		p.Warnings = append(p.Warnings, "state and offsets belong together: with offsets alone, what is processed again counts twice in its stores, and what is passed over is missing from them")
	}
	if !o.offsetsOnly && p.facts.kind.Application() && o.stateDir == "" && p.changelogs() {
		p.Warnings = append(p.Warnings, "state on disk stays where it is: at the next start the application empties whatever belongs to a changelog that was deleted. "+
			"Stores without a changelog are not noticed: run this with -state-dir on their machines")
	}
	if p.deletes(outside.RedriveSuffix) && p.redriven {
		p.Warnings = append(p.Warnings, "dead letters that were redriven and are not done go with the topics, and are noted as redriven: dlq redrive -again sends them once more")
	}
	if !o.offsetsOnly && (p.facts.kind == outside.KafkaStreams || p.facts.kind == outside.Streams && o.stateDir == "" && p.changelogs()) {
		p.Warnings = append(p.Warnings, "if this is an application of Kafka Streams, its local state has to be deleted too (KafkaStreams.cleanUp, or its state.dir)")
	}
}

func (p *resetPlan) changelogs() bool { return p.deletes(outside.ChangelogSuffix) }

// deletes says that topics for that purpose go.
func (p *resetPlan) deletes(suffix string) bool {
	return slices.ContainsFunc(p.Delete, func(t topicRow) bool { return t.Purpose == suffix[1:] })
}

// more says that there is more to do than to commit offsets.
func (p *resetPlan) more() bool { return len(p.Delete)+len(p.drop)+len(p.Files) > 0 }

// offsets are what is committed: with the note that the reset is half done, or as a new start.
func (p *resetPlan) offsets(half bool) []task.InputOffset {
	out := make([]task.InputOffset, len(p.Parts))
	for i, part := range p.Parts {
		out[i] = task.InputOffset{TopicPartition: task.TopicPartition{Topic: part.Topic, Partition: part.Partition}, Offset: part.To}
		if half {
			out[i].Metadata = retry.HalfReset
		}
	}
	return out
}

func (p *resetPlan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group  %s\nkind   %s\nstate  %s\nto     %s\n\n", p.Group, p.Kind, p.State, p.To)
	table(&b, func(t *tabwriter.Writer) {
		fmt.Fprintln(t, "TOPIC\tPARTITION\tCOMMITTED\tRESET TO\t")
		for _, r := range p.Parts {
			fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\n", r.Topic, r.Partition, known(r.Committed), r.To, r.Note)
		}
	})
	done := func(s string) string {
		if p.Applied {
			return s + " (done)"
		}
		return s
	}
	lines(&b, done("topics that are deleted; the application makes them anew"), rows(p.Delete))
	lines(&b, done("state that is deleted"), p.Files)
	lines(&b, inDoubt, rows(p.Doubt))
	lines(&b, "dead letters, which stay (-dead-letters deletes them)", rows(p.Keep))
	lines(&b, "topics that stay as they are", rows(p.Left))
	lines(&b, "offsets that stay: there is no such partition", p.Gone)
	lines(&b, "note", p.Warnings)
	if !p.Applied {
		unchanged(&b, p.Refused)
	}
	return b.String()
}

const inDoubt = "topics that are not clearly this application's: -take names those that are, -leave the others; until then nothing is done"

// lines prints a list with a title, if there is something in it.
func lines(b *strings.Builder, title string, all []string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, l := range all {
		fmt.Fprintf(b, "  %s\n", l)
	}
}

func rows(all []topicRow) []string {
	out := make([]string, len(all))
	for i, t := range all {
		out[i] = t.Name
		if t.Records > 0 {
			out[i] += fmt.Sprintf(": %d records that are put aside go with it", t.Records)
		}
		if t.Why != "" {
			out[i] += ": " + t.Why
		}
	}
	return out
}
