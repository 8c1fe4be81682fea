package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// cleanup is what the command line says of what an application has beside its offsets.
type cleanup struct {
	letters     bool
	take, leave []string
	stateDir    string
}

func (c *cleanup) flags(set *flag.FlagSet) {
	set.BoolVar(&c.letters, "dead-letters", false, "delete the dead letters too, and what is noted of their redrives")
	patterns := func(into *[]string) func(string) error {
		return func(s string) error {
			for _, p := range strings.Split(s, ",") {
				if _, err := path.Match(p, ""); err != nil || p == "" {
					return fmt.Errorf("%q is no pattern", p)
				}
				*into = append(*into, p)
			}
			return nil
		}
	}
	set.Func("take", "topics that are this application's though their names may be another's: names or patterns (shop-v2-*), separated by commas", patterns(&c.take))
	set.Func("leave", "topics that are not this application's though their names look so: as for -take", patterns(&c.leave))
	set.StringVar(&c.stateDir, "state-dir", "", "delete the state on this machine too: the directory that Config.StateDir names")
}

// topicRow is a topic of the application's own. Its names in JSON stay the same.
type topicRow struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
	Records int    `json:"records,omitempty"` // put aside in a retry topic: they go with it
	Why     string `json:"why,omitempty"`     // nothing is done about it
}

// owned are the topics that have names of the application's own.
type owned struct {
	Delete []topicRow // what goes
	Keep   []topicRow // dead letters
	Doubt  []topicRow // somebody has to say
	Others []string   // somebody has said
}

// sort says what becomes of the topics that have names of the application's own.
func (c *cleanup) sort(all []outside.Internal) owned {
	var out owned
	for _, in := range all {
		row := topicRow{Name: in.Name, Purpose: in.Purpose}
		taken := outside.Matches(c.take, in.Name)
		switch {
		case !taken && outside.Matches(c.leave, in.Name):
			out.Others = append(out.Others, in.Name)
		case in.Purpose == outside.LettersSuffix[1:] && !c.letters:
			out.Keep = append(out.Keep, row)
		case in.Doubt != "" && !taken:
			row.Why = in.Doubt
			out.Doubt = append(out.Doubt, row)
		default:
			out.Delete = append(out.Delete, row)
		}
	}
	return out
}

// doubtful is an error while it is not known whose topics are.
func (o *owned) doubtful() error {
	if len(o.Doubt) == 0 {
		return nil
	}
	names := make([]string, len(o.Doubt))
	for i, t := range o.Doubt {
		names[i] = t.Name + " (" + t.Why + ")"
	}
	return fmt.Errorf("it is not clear whose these topics are: %s: name those of this application with -take and the others with -leave; both take patterns", strings.Join(names, ", "))
}

// has says that a topic is, or may be, the application's own: no input.
func (o *owned) has(topic string) bool {
	named := func(t topicRow) bool { return t.Name == topic }
	return slices.ContainsFunc(o.Delete, named) || slices.ContainsFunc(o.Keep, named) || slices.ContainsFunc(o.Doubt, named)
}

// offsetsOf are the committed offsets that go with topics that are deleted.
func (o *owned) offsetsOf(f *facts) (out []task.TopicPartition) {
	for _, c := range f.offsets {
		if slices.ContainsFunc(o.Delete, func(t topicRow) bool { return t.Name == c.Topic }) {
			out = append(out, c.TopicPartition)
		}
	}
	return out
}

// parked counts what is put aside in retry topics that go.
func (c *cleanup) parked(ctx context.Context, client *kafka.Client, topics []topicRow) error {
	reader := outside.Reader{Client: client}
	defer reader.Close()
	for i := range topics {
		if topics[i].Purpose != outside.RetrySuffix[1:] {
			continue
		}
		spans, err := outside.Spans(ctx, client, topics[i].Name)
		if err != nil {
			return err
		}
		for _, s := range spans {
			rows, err := reader.Parked(ctx, s, false)
			if err != nil {
				return err
			}
			topics[i].Records += len(rows)
		}
	}
	return nil
}

// state names the state on this machine. If there is none, somebody may have deleted it already.
func (c *cleanup) state(app string) (files, warnings []string, err error) {
	if c.stateDir == "" {
		return nil, nil, nil
	}
	seen, err := pebblestore.Look(c.stateDir, app)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, []string{err.Error()}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("-state-dir: %w", err)
	case len(seen.Strangers) > 0:
		warnings = append(warnings, "these are no files of an application, and stay: "+strings.Join(seen.Strangers, ", "))
	}
	return seen.State, warnings, nil
}
