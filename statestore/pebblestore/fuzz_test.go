package pebblestore

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// FuzzDatabase opens a database that holds any row: what is read is an error or can be written back, and what is no such row is damage.
func FuzzDatabase(f *testing.F) {
	name := appendNameKey(nil, "rows")
	position := appendPositionKey(nil, oneTask, 1)
	row := statestore.AppendKey(statestore.AppendStorePrefix(nil, oneTask, 1), []byte("k"))
	f.Add(name, appendStoreID(nil, 1))
	f.Add(name, appendStoreID(nil, 1<<31))
	f.Add(name, []byte{})
	f.Add(position, appendPositionValue(7))
	f.Add(position, []byte("12345678"))
	f.Add(position[:len(position)-1], appendPositionValue(7))
	f.Add(row, []byte("12345678value"))
	f.Add(row, []byte("short"))
	f.Add(row[:len(row)-2], []byte("12345678value"))
	f.Add(statestore.AppendTaskPrefix(nil, oneTask), []byte{})
	f.Add([]byte{0xff}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(key) == 0 {
			t.Skip("Pebble cannot write a table of nothing but the empty key")
		}
		fs := vfs.NewMem()
		d, err := Open(Options{Dir: "db", FS: fs, Memory: 1 << 20})
		require.NoError(t, err)
		require.NoError(t, d.db.Set(key, value, pebble.NoSync))
		require.NoError(t, d.Close())
		if d, err = Open(Options{Dir: "db", FS: fs, Memory: 1 << 20}); err != nil {
			require.True(t, isDamage(err), "the next start would meet it again: %v", err)
			return
		}
		defer func() { require.NoError(t, d.Close()) }()
		_, err = d.Tasks()
		damaged(t, d, err)
		ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
		if damaged(t, d, err); err != nil {
			return
		}
		defer func() { require.NoError(t, ts.Close()) }()
		require.GreaterOrEqual(t, ts.Position(0), statestore.NoPosition)
		rd := ts.Reader(0)
		it := rd.Scan(nil, nil, false)
		for it.Next() {
			got, found, err := rd.Get(it.Key())
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, it.Row().Value, got.Value)
		}
		damaged(t, d, it.Close())
	})
}

func appendPositionValue(offset int64) []byte { return appendPosition(nil, position{offset: offset}) }

// damaged checks that an error of what lies in the database is known as damage.
func damaged(t *testing.T, d *DB, err error) {
	if err != nil {
		require.Error(t, d.Corruption(), "%v", err)
	}
}

// FuzzNote reads the note of damage, which only goes to the log.
func FuzzNote(f *testing.F) {
	f.Add([]byte("a bad block"))
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xfe})
	f.Add([]byte(strings.Repeat("long", 4<<10)))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem()
		require.NoError(t, fs.MkdirAll("db", 0o700))
		file, err := fs.Create("db/"+corruptName, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = file.Write(b)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		err = marked(fs, "db")
		require.Error(t, err)
		require.Less(t, len(err.Error()), 4*maxCauseBytes)
	})
}
