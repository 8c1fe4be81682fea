package main

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// opticks is Isaac Newton's Opticks; ORIGIN.md says where it is from.
//
//go:embed opticks.txt
var opticks string

// topology counts the words of all lines into the topic out.
func topology(out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("lines", serde.String, serde.String).
		FlatMapValues(words).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts").
		ToStream().
		To(out)
	return b
}

// words are the words of a line, in lower case. What is no letter separates them, line ends and byte order marks included.
func words(line string) []string {
	return strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) })
}

// lines are those of the book, that many times over.
func lines(times int) []string {
	return slices.Repeat(slices.Collect(strings.Lines(opticks)), max(times, 1))
}

// countAll counts the words of lines with a plain loop: what the application's result is held against.
func countAll(lines []string) map[string]int64 {
	counts := map[string]int64{}
	for _, line := range lines {
		for _, w := range words(line) {
			counts[w]++
		}
	}
	return counts
}

// sum is the number of all words.
func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
