// Package streams is a stream-processing runtime to embed in a Go program: define a topology, run it, and start as many copies of the
// program as the work needs.
//
// # Topology
//
// A [Builder] collects steps. [Builder.Stream] reads a topic as a [Stream] of records, [Builder.Table] as a [Table] with one row a key.
// Methods of a Stream make new Streams; grouping and aggregating makes Tables; [Stream.To] writes a topic:
//
//	b := streams.NewBuilder()
//	b.Stream("lines", serde.String, serde.String).
//		FlatMapValues(strings.Fields).
//		GroupBy(func(_, word string) string { return word }).
//		Count("word-counts").
//		ToStream().
//		To("counts")
//	app, err := streams.New(b, streams.Config{ApplicationID: "wordcount", Brokers: brokers, StateDir: dir})
//	if err != nil {
//		return err
//	}
//	return app.Run(ctx)
//
// Nothing panics and nothing fails on the way: the Builder collects all faults of a topology, and [New] (or [Builder.Build]) returns them
// at once in a [*TopologyError].
//
// # Keys, values and null
//
// Types are checked by the compiler from end to end. A step that writes bytes (a sink, a store, a repartition topic) takes its serdes from
// the stream if it still has those of its source, else by type: string, []byte, int32, int64, float64 and [16]byte have one, all others
// are named once with [Builder.Register], or at the step with [WithSerdes].
//
// Kafka's keys and values can be null. A null travels as a flag beside the zero value; each method says whether its function is called
// for one. A nil []byte and a nil pointer that a function returns are null, an empty []byte is an empty value.
//
// # Units
//
// What the steps do for one record, in stores, to changelogs and to output topics, is kept or dropped together. If a step fails, it is
// as if the record had never come.
//
// # Ownership
//
// Each task has nodes of its own, called by one goroutine; functions given to the Builder are shared by all tasks and must be safe for
// concurrent use, while a [Processor] made by its supplier belongs to one task. Decoded values belong to the program for ever. Values of
// type []byte and headers are borrowed until the function that gets them returns.
//
// All steps behind one step are given the same value. A function that changes what a slice, a map or a pointer leads to changes it for the
// others too, so it makes a copy first; only the result that an aggregation gets is its own to change.
//
// # Running
//
// [New] checks everything and connects to nothing; [App.Run] runs until its context ends. Processes with the same [Config].ApplicationID share
// the tasks; the topics that are read and written must exist, those that belong to the application are made. Delivery is at least once: after
// a crash the records since the last commit are processed again. A record that fails ends Run with a [*RecordError], with everything before it
// committed. [Config].Log and [Config].Listener say what goes on.
//
// # Just a consumer
//
// Who needs less than a topology has [Consumer]: a loop around Poll, commits in every form, partitions by hand or by the group, offsets kept
// where the results are.
//
// # Testing
//
// Package streamstest runs a topology without a broker, or an application on an embedded one.
package streams
