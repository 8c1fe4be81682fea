package retry

import (
	"fmt"
	"strings"
	"time"
)

// String is the metadata for people: one line, with at most 32 holes written out.
func (m Metadata) String() string {
	const most = 32
	parts := []string{"stream time " + instant(m.StreamTime), fmt.Sprintf("main %d", m.Main)}
	if len(m.Holes) > 0 {
		var open int64
		shown := make([]string, 0, most)
		for i, h := range m.Holes {
			open += h.Len()
			if i < most {
				shown = append(shown, h.String())
			}
		}
		if more := len(m.Holes) - most; more > 0 {
			shown = append(shown, fmt.Sprintf("and %d more", more))
		}
		parts = append(parts, fmt.Sprintf("open %d [%s]", open, strings.Join(shown, " ")))
	}
	if h := m.Head; h != nil {
		parts = append(parts, fmt.Sprintf("head attempt %d first %s due %s", h.Attempt, instant(h.First), instant(h.Due)))
	}
	if m.Running {
		parts = append(parts, "running")
	}
	if m.Starts > 0 {
		parts = append(parts, fmt.Sprintf("starts %d", m.Starts))
	}
	if m.Suspect >= 0 {
		parts = append(parts, fmt.Sprintf("suspect %d", m.Suspect))
	}
	if m.Deaths > 0 {
		parts = append(parts, fmt.Sprintf("deaths %d", m.Deaths))
	}
	if m.Topic != (TopicID{}) {
		parts = append(parts, "topic "+m.Topic.String())
	}
	return strings.Join(parts, ", ")
}

func instant(ms int64) string {
	if ms < 0 {
		return "none"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
