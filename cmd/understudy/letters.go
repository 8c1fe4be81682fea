package main

import (
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// letterOf reads the headers of a record of a dead-letter topic. Anybody may have written them.
func letterOf(rec *task.Record) (l retry.Letter, original []retry.Header, ok bool) {
	return retry.ParseLetter(headersOf(rec))
}

func headersOf(rec *task.Record) []retry.Header {
	out := make([]retry.Header, len(rec.Headers))
	for i, h := range rec.Headers {
		out[i] = retry.Header{Key: h.Key, Value: h.Value}
	}
	return out
}
