package pebblestore

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/statestore"
)

// comparer orders keys by their bytes. Its name and what Split answers are part of the database's format. A bare prefix of a task is its
// own split, or Excise would refuse it as a bound.
var comparer = &pebble.Comparer{
	Name:                 "understudy.1",
	Compare:              bytes.Compare,
	Equal:                bytes.Equal,
	ComparePointSuffixes: bytes.Compare,
	CompareRangeSuffixes: bytes.Compare,
	Split:                statestore.SplitLen,
	AbbreviatedKey:       pebble.DefaultComparer.AbbreviatedKey,
	FormatKey:            pebble.DefaultComparer.FormatKey,
	Separator:            pebble.DefaultComparer.Separator,
	Successor:            pebble.DefaultComparer.Successor,
	ImmediateSuccessor:   nextPrefix,
}

// nextPrefix appends the first prefix after a. What ends in 00 01 is a terminated key: 00 02 comes after all its rows and before any other
// key, and ends nothing itself.
func nextPrefix(dst, a []byte) []byte {
	dst = append(dst, a...)
	if n := len(dst); len(a) > 12 && bytes.HasSuffix(a, []byte{0, 1}) {
		dst[n-1] = 2
		return dst
	}
	return append(dst, 0)
}
