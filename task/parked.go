package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParkedError says that records are put aside which nothing would ever run: the policy of their source puts none aside any more, or the topology
// does not read their source any more. It ends the application before any of them can be forgotten, and says in its text what to do.
type ParkedError struct {
	// Topic is the retry topic in which they lie.
	Topic string
	// Application is the id of the application.
	Application string
	// Source is what the retry topic is named after. It is empty where Runs is.
	Source string
	// Read says that Source is a source of the topology and names its retry topics.
	Read bool
	// Runs says that the topology has the retry topic, and only the topics of these records are gone from it.
	Runs bool
	// Records counts the records, by the topics that they were read from. Those that cannot be read are under the empty name.
	Records map[string]int
}

// Count is how many records there are.
func (e *ParkedError) Count() (n int) {
	for _, c := range e.Records {
		n += c
	}
	return n
}

func (e *ParkedError) Error() string {
	var from []string
	for _, topic := range slices.Sorted(maps.Keys(e.Records)) {
		name := fmt.Sprintf("%q", topic)
		if topic == "" {
			name = "what cannot be read"
		}
		from = append(from, fmt.Sprintf("%d of %s", e.Records[topic], name))
	}
	var why, run, flags string
	source := strings.TrimSuffix(strings.TrimPrefix(e.Topic, e.Application+"-"), "-retry")
	switch {
	case e.Runs:
		why = "the topology does not read their topic any more"
		run = "read it as before until they are done"
		flags = " -topic-of-record " + slices.Sorted(maps.Keys(e.Records))[0] // the flag takes one
	case e.Read:
		why = "the policy puts none aside any more"
		run = fmt.Sprintf("add retry.DrainFirst() to the policy of source %q until they are done", e.Source)
	default:
		why = fmt.Sprintf("the topology does not have source %q any more, or not as the first of its subtopology", e.Source)
		run = "let the topology read it as before, with retry.DrainFirst() in its policy, until they are done"
	}
	return fmt.Sprintf("streams: %d records that are to be tried again are put aside in topic %q (%s), and nothing would run them: %s. Either %s; "+
		"or make dead letters of them: understudy retry drain -app %s -source %s%s -apply",
		e.Count(), e.Topic, strings.Join(from, ", "), why, run, e.Application, source, flags)
}
