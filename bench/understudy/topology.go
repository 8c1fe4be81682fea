package main

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func topology(workload, in string, emission streams.Emission) (*streams.Builder, error) {
	b := streams.NewBuilder(emission)
	source := b.Stream(in, serde.String, serde.String)
	switch workload {
	case "map":
		source.MapValues(upper).To("out")
	case "count":
		source.GroupByKey().Count("c").ToStream().To("out")
	case "wordcount":
		source.
			FlatMapValues(func(line string) []string { return strings.Split(line, " ") }).
			GroupBy(func(_, word string) string { return word }).
			Count("c").
			ToStream().
			To("out")
	case "keep":
		source.GroupByKey().Reduce("r", func(first, _ string) string { return first }).ToStream().To("out")
	default:
		return nil, fmt.Errorf("no workload %q; there are map, count, wordcount and keep", workload)
	}
	return b, nil
}

// upper is one pass into one new string: strings.ToUpper would measure itself.
func upper(s string) string {
	if s == "" {
		return ""
	}
	b := make([]byte, len(s))
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		b[i] = c
	}
	return unsafe.String(&b[0], len(b)) // nobody writes to b any more
}
