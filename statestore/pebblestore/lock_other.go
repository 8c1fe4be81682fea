//go:build !unix

package pebblestore

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockFile takes the lock on a file. Who has it otherwise cannot be told here: an error counts as held.
func lockFile(path string) (unlock io.Closer, held bool, pid int, err error) {
	l, err := vfs.Default.Lock(path)
	if err != nil {
		return nil, true, 0, nil
	}
	return l, false, 0, nil
}
