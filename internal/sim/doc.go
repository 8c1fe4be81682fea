// Package sim runs whole applications on one goroutine: several processes with the real machines (engine.Engine and in it group.Machine,
// engine.Sender, engine.Planner, task.Owner) against the broker model, under virtual time, with faults. One seed decides everything: how
// long messages take, what is lost, who dies when. The same seed gives the same run, to the last event.
//
// What package shell does on goroutines is done here by events in a queue: each mailbox of a process is a lane whose messages keep their
// order and take a little time. A process that is paused gets its events late; one that has crashed never gets them.
//
//	world     the queue, the clock, the random numbers, the broker model
//	link      a connection of a process to a node: order kept, requests and answers delayed, cut by faults
//	host      a machine with its disk; process, what runs on it between two crashes
//	oracle    what must hold at every moment; end, what must hold when the faults are over
//
// The application counts words: input, repartition by word, a logged store, an output. A row of the store holds, beside the count, the set of
// the input records in it, so that a lost record is noticed even where another one was counted twice.
package sim
