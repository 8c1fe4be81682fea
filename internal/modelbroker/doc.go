// Package modelbroker is a small, deterministic model of a cluster of Kafka brokers: topics and their logs, idempotent produce, parked
// fetches and the coordinator of classic consumer groups. It answers what a real broker (4.x) answers, down to the error codes that the
// runtime decides on, and it is pure: no socket, no goroutine, no lock, no clock. The simulation and the tests of the engine drive it.
//
// A caller opens connections to nodes with Dial, hands over requests with Receive at the moment they arrive, and takes what is answered with
// Answers. A request may be parked (JoinGroup and SyncGroup until the barrier, Fetch until there is data or its time is over): its answer
// comes out of a later call. The requests of one connection are served in order, one at a time, so that a parked one holds up those behind
// it. The caller decides how long requests and answers travel and which of them are lost. Time moves only with the now of each call; Wake
// says when the model wants to be called next, and Advance is that call:
//
//	b := modelbroker.New(modelbroker.Config{Brokers: 3, Seed: 1, Topics: map[string]modelbroker.TopicConfig{"in": {Partitions: 4}}})
//	c, err := b.Dial(0)
//	b.Receive(now, c, 1, modelbroker.MetadataRequest{})
//	for _, a := range b.Answers() { ... }
//
// Failures are calls as well: Crash, Restart and Shutdown of a node, MoveLeader, MoveCoordinator, Hangup of a connection, Compact, Trim, and
// transactions reduced to what a reader notices of them (OpenTransaction, EndTransaction).
//
// What it leaves out: transactional requests, static members, ACLs, quotas, replication as a process (an append is on all replicas at once),
// retention by time, expiry of offsets and of empty groups.
package modelbroker
