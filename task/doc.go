// Package task is the inside of the runtime that processes records: a task, which is a subtopology times a partition number, and its owner,
// the state machine of a task's life. It is open to read; applications use package streams.
//
// Nothing here blocks, locks, logs or reads the clock. One goroutine owns a Task and everything in it: the queues of its inputs, its
// overlays, the nodes that were built for it. Time comes in as an argument, input as batches, and what the task wants done comes out as
// plain data: effects to produce, a sealed commit, queue space given back.
//
// # Units
//
// A unit is a record, an emission of a table or a punctuation. What a unit writes to stores and sends is kept or dropped together: a failed
// unit leaves nothing in the stores, the changelog and the outputs. Stream time is observed before the nodes run; what time sets off runs
// after the record's unit, in units of its own.
//
// # Life of a record
//
// Add puts a batch into the queue of its input. Process takes the record with the lowest timestamp among the heads of the queues and calls
// the entry node of its input; nodes call each other directly, read and write overlays, and append encoded outputs to the effects arena
// with Env.Tail and Env.Send. Effects are handed over a few milliseconds later, or when they have grown to 64 KiB.
//
// # Life of a commit
//
// Seal emits the tables that emit at commit, moves the stores' active generation to sealed, appends the changelog records and returns the
// cut as plain data. The shell produces the effects, waits for the acks, commits the offsets, applies the rows, and reports with Committed.
// Meanwhile the task goes on in the next generation. At most one commit is outstanding.
package task
