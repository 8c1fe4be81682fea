// Package group is the member of a consumer group as a pure state machine. The shell that carries its actions out, over connections of its
// own, is the package carrier below it: so whatever embeds the machine imports no client library.
//
// The machine decides and the shell does. The machine has no clock, no goroutine and no lock; whoever owns it calls Step with events and
// carries out the actions that come back; the carrier sends requests, each on the goroutine of its connection, and posts the answers as
// events.
package group
