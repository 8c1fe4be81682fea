// Package shell carries out on goroutines what the machines of an application decide. It holds no decision of its own.
//
//	core loop     one goroutine: engine.Engine; everything that is decided for the process
//	task          one goroutine per task: task.Owner; user code runs here
//	sender        one goroutine: engine.Sender; beneath it one goroutine and connection per broker that encodes and writes
//	fetch         one goroutine and connection per broker and purpose: engine.Planner
//	requests      short-lived goroutines for group, offset and admin requests
//
// They talk by mailboxes of plain messages. What a mailbox holds is bounded by what the machines allow to be on the way: bytes per
// partition, unacknowledged effects per task, one commit per task, one fetch per broker.
package shell
