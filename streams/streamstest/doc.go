// Package streamstest runs a topology in a test: without a broker, without a goroutine, with a wall clock that stands still until it is
// told to move.
//
//	d := streamstest.New(t, b)
//	lines := streamstest.In(d, "lines", serde.String, serde.String)
//	counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
//	lines.Pipe("", "one two one")
//	for _, r := range counts.ReadAll() {
//		t.Log(r.Key, r.Value) // one 2, two 1
//	}
//
// A [Driver] runs the very tasks that an application runs, one for each subtopology and partition, and carries their records through
// repartition topics. Each piped record is processed and committed before Pipe returns, unless [HoldCommits] leaves commits to
// [Driver.Commit]: tables that emit at commit emit then. [Driver.Restart] starts anew from what was committed, with the stores or without.
//
// Values of type []byte and headers are lent to a function until it returns. The Driver overwrites them afterwards, so that a function that
// keeps them is found out.
//
// A Driver belongs to the goroutine of its test.
package streamstest
