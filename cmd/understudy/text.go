package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// text is the view for the eye.
func (v *view) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group       %s\n", v.Group)
	fmt.Fprintf(&b, "state       %s\n", v.State)
	fmt.Fprintf(&b, "protocol    %s\n", cmp.Or(v.Protocol, "-"))
	if v.Generation >= 0 {
		fmt.Fprintf(&b, "generation  %d\n", v.Generation)
	}
	fmt.Fprintf(&b, "members     %d\n", len(v.Members))
	if v.Tasks > 0 {
		fmt.Fprintf(&b, "tasks       %s\n", v.count())
	}
	if rebalancing(v.State) {
		b.WriteString("\nThe group rebalances: the coordinator shows no assignment until that is over.\n")
	}
	if v.State == "Empty" {
		b.WriteString("\nNobody is in the group: no process of the application runs.\n")
	}
	for _, m := range v.Members {
		b.WriteByte('\n')
		m.text(&b)
	}
	if len(v.Unassigned) > 0 {
		fmt.Fprintf(&b, "\nunassigned  %s\n", strings.Join(v.Unassigned, " "))
	}
	if len(v.Moves) > 0 {
		b.WriteString("\nmoves of the last rebalance\n")
		table(&b, func(t *tabwriter.Writer) {
			for _, m := range v.Moves {
				fmt.Fprintf(t, "  %s\t%s\n", m.Kind, m.Reason)
			}
		})
	}
	if v.Generation >= 0 {
		fmt.Fprintf(&b, "\nLags and readiness are those that the members declared when they joined generation %d; ? is what they could not say.\n", v.Generation)
	}
	if len(v.Partitions) > 0 {
		b.WriteByte('\n')
		table(&b, func(t *tabwriter.Writer) {
			fmt.Fprintln(t, "TOPIC\tPARTITION\tCOMMITTED\tEND\tLAG")
			for _, p := range v.Partitions {
				fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", p.Topic, p.Partition, known(p.Committed), known(p.End), known(p.Lag))
			}
		})
		v.besides(&b)
	}
	return b.String()
}

func (v *view) count() string {
	active, moving, learners, standbys := 0, 0, 0, 0
	for _, m := range v.Members {
		active += len(m.Active)
		learners += len(m.Learners)
		standbys += len(m.Standbys)
		for _, a := range m.Active {
			if a.Receiver != "" {
				moving++
			}
		}
	}
	unassigned := fmt.Sprintf(", %d unassigned", len(v.Unassigned))
	if v.unread() != nil {
		unassigned = " as far as can be read"
	}
	return fmt.Sprintf("%d: %d active (%d of them moving)%s; %d being learned, %d standby copies", v.Tasks, active, moving, unassigned, learners, standbys)
}

func (m *memberView) text(b *strings.Builder) {
	facts := []string{"member " + m.ID, "host " + cmp.Or(strings.TrimPrefix(m.Host, "/"), "-")}
	if m.Process != "" {
		facts = append(facts, "process "+m.Process[:8])
	}
	if m.Capacity > 0 {
		facts = append(facts, "topology "+strconv.Itoa(int(m.TopologyVersion)), "capacity "+strconv.Itoa(m.Capacity))
	}
	if m.Rack != "" {
		facts = append(facts, "rack "+m.Rack)
	}
	if len(m.Tags) > 0 {
		var tags []string
		for _, k := range slices.Sorted(maps.Keys(m.Tags)) {
			tags = append(tags, k+"="+m.Tags[k])
		}
		facts = append(facts, "tags "+strings.Join(tags, ","))
	}
	if m.Draining {
		facts = append(facts, "draining")
	}
	b.WriteString(strings.Join(facts, "  ") + "\n")
	for _, p := range m.Problems {
		fmt.Fprintf(b, "  cannot be read: %s\n", p)
	}
	if len(m.Partitions) > 0 {
		fmt.Fprintf(b, "  assigned partitions: %s\n", strings.Join(m.Partitions, " "))
	}
	if rows := m.rows(); len(rows) > 0 {
		table(b, func(t *tabwriter.Writer) {
			fmt.Fprintln(t, "  TASK\tROLE\tLAG\tDETAIL")
			for _, r := range rows {
				fmt.Fprintln(t, "  "+strings.Join(r[:], "\t"))
			}
		})
	}
	if len(m.Unfit) > 0 {
		fmt.Fprintf(b, "  unfit: %s\n", strings.Join(m.Unfit, " "))
	}
}

// rows are the member's tasks: task, role, lag, detail.
func (m *memberView) rows() (out [][4]string) {
	for _, a := range m.Active {
		var detail []string
		if a.Restoring {
			detail = append(detail, "was restoring")
		}
		switch {
		case a.Receiver != "" && a.Ready:
			detail = append(detail, "moves to "+a.Receiver+" in the next round")
		case a.Receiver != "":
			detail = append(detail, "moves to "+a.Receiver+" when that has learned it")
		}
		out = append(out, [4]string{a.Task, "active", "", strings.Join(detail, ", ")})
	}
	for _, c := range m.Learners {
		out = append(out, c.row("learner", true))
	}
	for _, c := range m.Standbys {
		out = append(out, c.row("standby", false))
	}
	for _, c := range m.OnDisk {
		out = append(out, c.row("on disk", false))
	}
	return out
}

func (c *copyView) row(role string, readiness bool) [4]string {
	var detail []string
	if readiness {
		switch {
		case c.Instant:
			detail = append(detail, "taken over as it is")
		case c.Ready:
			detail = append(detail, "ready")
		default:
			detail = append(detail, "not ready")
		}
	}
	if c.CatchUp != nil {
		detail = append(detail, fmt.Sprintf("caught up in %d s", *c.CatchUp))
	}
	if c.Stalled {
		detail = append(detail, "stalled")
	}
	if c.Owner != "" {
		detail = append(detail, "runs at "+c.Owner)
	}
	lag := "?"
	if c.Lag != nil {
		lag = strconv.FormatInt(*c.Lag, 10)
	}
	return [4]string{c.Task, role, lag, strings.Join(detail, ", ")}
}

// table aligns what fill writes; trailing blanks are cut off.
func table(b *strings.Builder, fill func(*tabwriter.Writer)) {
	var raw strings.Builder
	t := tabwriter.NewWriter(&raw, 0, 0, 2, ' ', 0)
	fill(t)
	_ = t.Flush() // a strings.Builder takes everything
	for line := range strings.Lines(raw.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
