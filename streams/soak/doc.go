// Package soak tests what an application holds on to: memory under pressure, and what is left after many starts and ends.
package soak
