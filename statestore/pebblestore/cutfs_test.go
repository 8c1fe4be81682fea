package pebblestore

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// cutFS tells of each operation that changes something, before it is done. Power may be cut there.
type cutFS struct {
	vfs.FS
	before func(op, name string)
}

func (c cutFS) Unwrap() vfs.FS { return c.FS }

func (c cutFS) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	c.before("create", name)
	f, err := c.FS.Create(name, w)
	if err != nil {
		return nil, err
	}
	return cutFile{File: f, fs: c, name: name}, nil
}

func (c cutFS) OpenDir(name string) (vfs.File, error) {
	f, err := c.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return cutFile{File: f, fs: c, name: name}, nil
}

func (c cutFS) Link(from, to string) error {
	c.before("link", to)
	return c.FS.Link(from, to)
}

func (c cutFS) Remove(name string) error {
	c.before("remove", name)
	return c.FS.Remove(name)
}

func (c cutFS) RemoveAll(name string) error {
	c.before("remove all", name)
	return c.FS.RemoveAll(name)
}

func (c cutFS) Rename(from, to string) error {
	c.before("rename", from)
	return c.FS.Rename(from, to)
}

func (c cutFS) MkdirAll(name string, perm os.FileMode) error {
	c.before("mkdir", name)
	return c.FS.MkdirAll(name, perm)
}

type cutFile struct {
	vfs.File
	fs   cutFS
	name string
}

func (f cutFile) Write(b []byte) (int, error) {
	f.fs.before("write", f.name)
	return f.File.Write(b)
}

func (f cutFile) Sync() error {
	f.fs.before("sync", f.name)
	return f.File.Sync()
}

func (f cutFile) SyncData() error {
	f.fs.before("sync", f.name)
	return f.File.SyncData()
}

func (f cutFile) SyncTo(n int64) (bool, error) {
	f.fs.before("sync to", f.name)
	return f.File.SyncTo(n)
}

func (f cutFile) Close() error {
	f.fs.before("close", f.name)
	return f.File.Close()
}
