// Package pattern says which topics a subscription by name patterns takes in.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Matcher is a compiled set of patterns. It is not changed after it was made and is safe for concurrent use.
type Matcher struct {
	include, exclude []*regexp.Regexp
}

// Compile makes a Matcher of Go regular expressions. Each is anchored: it has to match the whole name of a topic. A topic is taken in if
// any of include matches it and none of exclude does. Every bad expression is named by the error.
func Compile(include, exclude []string) (*Matcher, error) {
	var m Matcher
	var faults []error
	if len(include) == 0 {
		faults = append(faults, errors.New("there is no pattern of topics to include: give at least one regular expression, \".*\" for all topics"))
	}
	compile := func(what string, exprs []string) (all []*regexp.Regexp) {
		for _, expr := range exprs {
			re, err := anchored(expr)
			if err != nil {
				faults = append(faults, fmt.Errorf("the %s pattern %q is no Go regular expression: %w", what, expr, err))
				continue
			}
			all = append(all, re)
		}
		return all
	}
	m.include, m.exclude = compile("include", include), compile("exclude", exclude)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return &m, nil
}

// anchored compiles the expression as it is first, or one such as "a)|(b" would close the group that anchors it.
func anchored(expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, errors.New("it is empty, and no topic has an empty name")
	}
	if _, err := regexp.Compile(expr); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + expr + `)\z`)
}

// Match reports whether the topic is taken in. Internal topics never are.
func (m *Matcher) Match(topic string) bool {
	return topic != "" && !Internal(topic) && matches(m.include, topic) && !matches(m.exclude, topic)
}

func matches(exprs []*regexp.Regexp, topic string) bool {
	for _, re := range exprs {
		if re.MatchString(topic) {
			return true
		}
	}
	return false
}

// internalEnds are how names of topics end that belong to an application, whosever it is: Kafka Streams and this runtime name them alike.
// Two applications that read ".*" would pass each other's records on for ever otherwise.
var internalEnds = []string{"-changelog", "-repartition", "-retry", "-redrive", "-dlq"}

// Internal reports whether a topic is one of the broker's own, or by its name one that belongs to an application: a changelog, a
// repartition, retry or redrive topic, dead letters. Such a topic can be read under its full name, but no pattern takes it in.
func Internal(topic string) bool {
	if strings.HasPrefix(topic, "__") {
		return true
	}
	for _, end := range internalEnds {
		if strings.HasSuffix(topic, end) {
			return true
		}
	}
	return false
}
