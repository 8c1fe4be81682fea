// Package statestore holds the state of stream tasks: the interfaces of a store and its backend, the two-generation overlay of encoded
// bytes in which a task works between two commits, the codecs of keys and changelog records, and an in-memory backend.
//
// Everything here is pure: no I/O, no clock, no goroutine, no lock. Pebble lives behind [Backend] in the package pebblestore.
package statestore
