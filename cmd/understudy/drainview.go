package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/understudy-streams/understudy/retry"
)

// drainView is what came of it. Its names in JSON stay the same.
type drainView struct {
	App     string          `json:"app"`
	Applied bool            `json:"applied"`
	Topics  []*drainedTopic `json:"topics"`
}

// drainedTopic counts the records of one retry topic.
type drainedTopic struct {
	Topic      string   `json:"topic"`
	To         []string `json:"to"`         // the dead-letter topics
	Drained    int64    `json:"drained"`    // or to be drained, where it was not applied
	Unreadable int64    `json:"unreadable"` // of these, those whose rows cannot be read
	Done       int64    `json:"done"`       // were done already, and are only deleted
	LeftOut    int64    `json:"leftOut"`    // by the filters
	Newer      int64    `json:"newer"`      // written by a newer version, and left
	Refused    int64    `json:"refused"`    // by the broker, and left
	Why        string   `json:"why,omitempty"`
}

func (t *drainedTopic) letters(topic string) {
	if !slices.Contains(t.To, topic) {
		t.To = append(t.To, topic)
	}
}

func (t *drainedTopic) count(r drained) {
	if r.to.Topic != "" {
		t.Drained++
	}
}

func (t *drainedTopic) refuse(why error) {
	if t.Refused++; t.Why == "" {
		t.Why = why.Error()
	}
}

// payloadKey is the key of the payload that belongs to an entry's; nil where that key is none.
func payloadKey(entry string) []byte {
	o, payload, err := retry.ParseKey([]byte(entry))
	if err != nil || payload {
		return nil
	}
	return retry.AppendPayloadKey(nil, o)
}

func (v *drainView) text() string {
	var b strings.Builder
	for _, t := range v.Topics {
		fmt.Fprintf(&b, "retry topic  %s\n", t.Topic)
		if len(t.To) > 0 {
			fmt.Fprintf(&b, "drained to   %s\n", strings.Join(t.To, " "))
		}
		name := "drained"
		if !v.Applied {
			name = "to be drained"
		}
		table(&b, func(w *tabwriter.Writer) {
			row := func(name string, n int64, what string) {
				if n > 0 {
					fmt.Fprintf(w, "  %s\t%d\t%s\n", name, n, what)
				}
			}
			fmt.Fprintf(w, "  %s\t%d\n", name, t.Drained)
			row("unreadable", t.Unreadable, "of these: the letter has what there is of the record, class "+retry.ClassEnvelope)
			row("done", t.Done, "and only to be deleted: a crash had cut that off")
			row("left out", t.LeftOut, "by the flags")
			row("newer", t.Newer, "of a newer version: use its understudy command")
			row("refused", t.Refused, "by the broker; they stay where they are")
		})
		if t.Why != "" {
			fmt.Fprintf(&b, "  %s\n", plain(t.Why, 300))
		}
		b.WriteByte('\n')
	}
	if !v.Applied {
		b.WriteString("Nothing was written: -apply does it.\n")
	}
	return b.String()
}
