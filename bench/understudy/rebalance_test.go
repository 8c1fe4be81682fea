package main

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestCounted(t *testing.T) {
	row := make([]byte, countBytes)
	for n, value := range []string{"first", "the second", ""} {
		was := bytes.Clone(row)
		next := counted("k", []byte(value), row)
		if got := binary.BigEndian.Uint64(next); got != uint64(n+1) || string(next[countBytes:]) != value {
			t.Errorf("count %d, value %q", got, next[countBytes:])
		}
		if !bytes.Equal(row, was) {
			t.Error("the row before has changed")
		}
		row = next
	}
}
