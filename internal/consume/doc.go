// Package consume is a consumer as a pure state machine: which partitions are read here and from where, what of what was fetched may be
// returned, and what may be committed of it. It contains the member of the group, if there is one.
//
// The machine decides and the shell does: see internal/shell. User code is called by neither, but by whoever calls the public methods; what
// is to be told to it waits in a queue of its own.
package consume
