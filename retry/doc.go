// Package retry says what becomes of a record that fails: policies, which a program names and which compose, and what the runtime keeps of
// records that are to be tried again. It is pure: it reads no clock, starts nothing, and waits for nothing.
//
// A program uses the constructors of a [Policy] ([Stop], [Ordered], [KeyOrdered], [Parallel]), their options, and the errors that say how one
// failure is to be taken ([Permanent], [Skip], [Snooze], [After]). The rest of the package is the inside of the runtime, open to read.
package retry
