// Package virtual runs the processes of an application on one goroutine and on virtual time: the real machines (engine.Engine and in it
// group.Machine, engine.Sender, engine.Planner, task.Owner), carried against the broker model instead of sockets, disks and goroutines. The
// simulation (package sim) and the clusters of streams/streamstest are worlds of this kind.
//
// What package shell does on goroutines is done here by events in a queue: each mailbox of a process is a lane whose messages keep their
// order and take a little time. A process that is paused gets its events late; one that has ended never gets them. How long things take, and
// what is lost, is drawn from the random numbers of the world: the same ones make the same run, to the last event.
//
//	World     the queue, the clock, the random numbers, the brokers; Pace, how fast and how lossy it is
//	Link      a connection of a process to a node: order kept, requests and answers delayed, cut by faults
//	Host      a machine with its disk, and what hinders what runs on it
//	Process   what runs on it from its start to its end; Task, one life of a task in it; Crew, the workers of a task
//	Watcher   is told what happens in a process at the moment at which it does, and may interfere; Observer, the same of the network
package virtual
