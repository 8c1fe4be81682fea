// Package group is the member of a consumer group: a pure state machine (Machine), and the shell that carries its actions out over three
// connections of its own (Carrier).
//
// The machine decides and the shell does. The machine has no clock, no goroutine and no lock; whoever owns it calls Step with events and
// carries out the actions that come back. The carrier sends requests, each on the goroutine of its connection, and posts the answers as events.
package group
