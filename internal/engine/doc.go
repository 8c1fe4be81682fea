// Package engine decides for a whole process of an application: when tasks are opened, restored, run, released and closed, what is
// fetched from which broker, how effects become produce batches, when offsets are committed and store batches applied.
//
// It is a set of state machines, [Engine], [Sender] and [Planner], each with a Step(now, Event) []Action. They do no I/O, read no clock,
// start no goroutine and hold no lock. The shells in package streams carry the actions out on goroutines; the simulation carries them
// out on one goroutine against a model broker. One goroutine at a time may call Step of one machine; the slice that Step returns is
// reused by the next call.
//
//	Engine    the core loop's: membership, task lives, restore, committer, leaders, purge, shut-down
//	Sender    effects of all tasks → one batch per partition, in order, idempotent
//	Planner   one per broker and purpose: what the next Fetch asks for; bounds in bytes
package engine
