package pebblestore

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// While a sync hangs, reads go on, and writes of memory, and the closing of tasks; whoever waits for the disk hears of his deadline.
func TestSyncThatHangs(t *testing.T) {
	fs := &failingFS{FS: vfs.NewMem()}
	d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20})
	require.NoError(t, err)
	rows := []statestore.Spec{{Name: "rows"}}
	var tasks []statestore.TaskStores
	for n := range 3 {
		ts, err := d.Open(taskN(n), rows)
		require.NoError(t, err)
		require.NoError(t, ts.Apply(bigBatch(1)))
		tasks = append(tasks, ts)
	}
	hangs, goOn := make(chan struct{}, 1000), make(chan struct{})
	hang := func(string) error {
		hangs <- struct{}{}
		<-goOn
		return nil
	}
	fs.syncErr.Store(&hang)

	w := NewWriters(2)
	overruns, ends := make(chan error, 2), make(chan error, 2)
	told := func(err error) {
		var o *OverrunError
		if errors.As(err, &o) {
			overruns <- err
		} else {
			ends <- err
		}
	}
	w.Do(taskN(1), 20*time.Millisecond, d.Flush, told)
	<-hangs
	w.Do(taskN(9), 20*time.Millisecond, func() error {
		ts, err := d.Open(taskN(9), []statestore.Spec{{Name: "of a new name"}}) // which must be durable first
		return errors.Join(err, ts.Close())
	}, told)
	<-overruns
	<-overruns

	rd := tasks[0].Reader(0)
	_, found, err := rd.Get([]byte("1-7"))
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, tasks[0].Apply(bigBatch(2)))
	_, found, err = rd.Get([]byte("2-7"))
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, d.FlushIfDue())
	require.NoError(t, d.Health())
	require.NoError(t, tasks[2].Close())
	require.ErrorContains(t, d.Close(), "close them first")
	require.Empty(t, ends)

	close(goOn)
	require.NoError(t, <-ends)
	require.NoError(t, <-ends)
	w.Close()
	fs.syncErr.Store(nil)
	require.NoError(t, tasks[0].Close())
	require.NoError(t, tasks[1].Close())
	require.NoError(t, d.Close())
}

// What passes its checksum and is not as it is written here is damage too, or a start would meet it again and again.
func TestWhatIsMalformedIsDamage(t *testing.T) {
	prefix := statestore.AppendStorePrefix(nil, oneTask, 1)
	for name, c := range map[string]struct {
		key, value []byte
		open, scan bool // what finds it
	}{
		"position":     {appendPositionKey(nil, oneTask, 1), []byte("short"), true, false},
		"position key": {append(statestore.AppendStorePrefix(nil, oneTask, metaStore), 'x'), nil, true, false},
		"row":          {statestore.AppendKey(prefix, []byte("k")), []byte("short"), false, true},
		"row's key":    {append(statestore.AppendKey(prefix, []byte("k")), 'x'), make([]byte, 9), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20, Listener: Listener{Corrupt: func(error) { told++ }}})
			require.NoError(t, err)
			specs := []statestore.Spec{{Name: "rows", Ordered: true}}
			ts, err := d.Open(oneTask, specs)
			require.NoError(t, err)
			require.NoError(t, ts.Close())
			require.NoError(t, d.db.Set(c.key, c.value, pebble.NoSync))
			ts, err = d.Open(oneTask, specs)
			require.Equal(t, c.open, err != nil)
			if err == nil {
				it := ts.Reader(0).Scan(nil, nil, false)
				for it.Next() {
				}
				require.Equal(t, c.scan, it.Close() != nil)
				require.NoError(t, ts.Close())
			}
			require.Equal(t, 1, told)
			var corrupt *CorruptError
			require.ErrorAs(t, d.Corruption(), &corrupt)
			require.NoError(t, d.Close())
		})
	}
}

// Two names of one id would read each other's rows.
func TestStoreIDsAreTheirNamesOwn(t *testing.T) {
	fs := vfs.NewMem()
	d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20})
	require.NoError(t, err)
	require.NoError(t, d.db.Set(appendNameKey(nil, "a"), appendStoreID(nil, 1), pebble.NoSync))
	require.NoError(t, d.db.Set(appendNameKey(nil, "b"), appendStoreID(nil, 1), pebble.NoSync))
	require.NoError(t, d.Close())
	_, err = Open(Options{Dir: "db", FS: fs, Memory: 16 << 20})
	require.ErrorContains(t, err, `stores "a" and "b" have the same id`)
	require.True(t, isDamage(err))
}
