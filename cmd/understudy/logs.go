package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/internal/kafka"
)

// Internal topics of a source are named by the application, the source, and what they are for.
const (
	deadLetters = "-dlq"
	redrives    = "-redrive"
	parked      = "-retry"
)

// sourceTopic is one topic that belongs to a source of the application.
type sourceTopic struct {
	name, source string
}

// topicsOf finds the application's topics for one purpose; of one source alone, if it is named. It asks for all topics, so it sees also those
// of a source that the application does not have any more.
func topicsOf(ctx context.Context, client *kafka.Client, app, source, purpose string) ([]sourceTopic, error) {
	md, err := client.Metadata(ctx, nil)
	if err != nil {
		return nil, err
	}
	var out []sourceTopic
	for _, name := range slices.Sorted(maps.Keys(md.Topics)) {
		rest, ok := strings.CutPrefix(name, app+"-")
		s, is := strings.CutSuffix(rest, purpose)
		if ok && is && s != "" && (source == "" || s == source) {
			out = append(out, sourceTopic{name: name, source: s})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no topic %s-%s%s on these brokers: -app must be the application's id, and -source the name of a source whose policy makes that topic", app, or(source, "*"), purpose)
	}
	return out, nil
}

// onlyOne is for commands that work on one source.
func onlyOne(topics []sourceTopic) (sourceTopic, error) {
	if len(topics) == 1 {
		return topics[0], nil
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.source
	}
	return sourceTopic{}, fmt.Errorf("there are %d sources: say which one with -source: %s", len(topics), strings.Join(names, ", "))
}

func topicNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
