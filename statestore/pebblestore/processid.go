package pebblestore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// processID reads the id of this process, or makes one.
func processID(files vfs.FS, dir string) (id [16]byte, err error) {
	b, err := readID(files, files.PathJoin(dir, processIDName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if id, ok := parseProcessID(b); ok {
		return id, nil
	}
	if _, err := rand.Read(id[:]); err != nil {
		return id, err
	}
	return id, writeFile(files, dir, processIDName, []byte(hex.EncodeToString(id[:])+"\n"))
}

func readID(files vfs.FS, path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, 64))
}

func parseProcessID(b []byte) (id [16]byte, ok bool) {
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	copy(id[:], raw)
	return id, true
}

// writeFile makes a file that is there as a whole or not at all. The directory is locked: nobody else makes it.
func writeFile(files vfs.FS, dir, name string, b []byte) error {
	path := files.PathJoin(dir, name)
	f, err := files.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = files.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(files, dir)
	}
	return err
}
