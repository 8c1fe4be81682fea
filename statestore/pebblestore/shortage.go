package pebblestore

import (
	"errors"
	"io/fs"
	"syscall"
)

// isShortage tells of a want that may pass: of room on the disk, or of files that may be open.
func isShortage(err error) bool {
	return IsFull(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// isDamage tells an error of the database's own from one of the disk, which another database in the same place would not cure: everything that
// is no answer of the operating system, or one that says that a file is not there. What cannot be read, EIO, is damaged unless nothing else
// can be read or written there either.
func isDamage(err error) bool {
	var no syscall.Errno
	var locked *lockError
	switch {
	case errors.As(err, &locked):
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EIO):
		return true
	case errors.Is(err, fs.ErrPermission):
		return false
	}
	return !errors.As(err, &no)
}
