// Package pebblestore keeps the committed state of all tasks of a process in one Pebble database, behind [statestore.Backend].
//
// There is no write-ahead log: the changelog topic is the log. A batch holds the rows of one task with the changelog positions they
// lead to, so that whatever survives a crash is consistent, and is caught up from its position. [DB.Flush] makes it durable; the
// database does so itself every 200,000 changes or 5 minutes, and on Close.
//
// [OpenDir] opens the database of an application in its state directory, with a lock against a second process. [Writers] is the pool
// on which writes run, because a full disk blocks them for as long as it is full.
//
// A [DB] is safe for concurrent use. A reader belongs to one goroutine; Apply, Ingest, Wipe and Drop of one task come one at a time.
package pebblestore
