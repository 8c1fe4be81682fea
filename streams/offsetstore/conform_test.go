package offsetstore_test

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
	"github.com/understudy-streams/understudy/streams/offsetstore/offsetstoretest"
)

func TestMemory(t *testing.T) {
	offsetstoretest.Run(t, func(*testing.T) func() streams.OffsetStore {
		m := offsetstore.NewMemory()
		return func() streams.OffsetStore { return m }
	})
}

func TestFile(t *testing.T) {
	offsetstoretest.Run(t, func(t *testing.T) func() streams.OffsetStore {
		path := filepath.Join(t.TempDir(), "offsets")
		var f *offsetstore.File
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return func() streams.OffsetStore {
			if f != nil {
				require.NoError(t, f.Close())
			}
			var err error
			f, err = offsetstore.OpenFile(path)
			require.NoError(t, err)
			return f
		}
	})
}

func TestPebble(t *testing.T) {
	offsetstoretest.Run(t, func(t *testing.T) func() streams.OffsetStore {
		fs := vfs.NewMem()
		var db *pebble.DB
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return func() streams.OffsetStore {
			if db != nil {
				require.NoError(t, db.Close())
			}
			var err error
			db, err = pebble.Open("db", &pebble.Options{FS: fs, Logger: pebble.DefaultLogger})
			require.NoError(t, err)
			return offsetstore.NewPebble(db, []byte("offsets/"))
		}
	})
}
