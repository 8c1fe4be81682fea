//go:build race

package serde_test

const raceEnabled = true
