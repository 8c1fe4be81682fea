// Package offsetstore has places for the offsets of a [streams.Consumer] other than Kafka: a file, a Pebble database and, for tests, memory.
// Each is given to the consumer as streams.ConsumerConfig.Offsets.
//
// # Which one
//
// The point of offsets of one's own is to keep them where the results are, in one transaction, so that each record counts exactly once
// whatever dies when. [Pebble.SaveWith] does that for results in Pebble; for SQL it is a table and a few lines, which examples/ledger shows.
// Results that are somewhere else have at-least-once with any store, as with offsets in Kafka; [File] is for those who do not want to have
// them there.
//
// # Who may write
//
// An offset that somebody writes who no longer has the partition must not undo what its present owner has written. Two rules see to that:
//
//   - Save is refused with [ErrFenced] when the stored offset is of a later generation of the group. The generations of a group begin again at
//     1 when the broker has forgotten it, which it does some minutes after the last member has left a group without offsets in Kafka; so
//     Load, which is how a partition's new owner begins, lifts the fence until the next Save.
//   - SaveWith is refused as well when the stored offset is not the one that the consumer goes on from. This is what makes exactly-once: whoever
//     comes second, an owner or one who only believes to be it, has nothing stored of what the first has stored already.
//
// # Several processes
//
// A file and a Pebble database belong to one process, and a second one is refused while that runs. Members of a group on several machines
// need a store that they share (SQL, or Kafka).
package offsetstore
