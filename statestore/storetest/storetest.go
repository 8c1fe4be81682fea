// Package storetest is the conformance suite of statestore backends. A backend passes it by itself and below a [statestore.Overlay].
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) statestore.Backend { return mystore.Open(t.TempDir()) })
//	}
package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// Reopener is a Backend under test that can be closed and opened again, or die. Without it the parts of the suite that need this are
// left out. Both make the old Backend useless; its task stores need not be closed before a Crash, but before a Reopen.
type Reopener interface {
	statestore.Backend
	// Reopen closes the backend and opens it again; nothing is lost.
	Reopen() (statestore.Backend, error)
	// Crash drops the backend as the death of its process does, and opens what is left: at least what has been flushed.
	Crash() (statestore.Backend, error)
}

// Run runs the suite. open returns a new, empty backend; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) statestore.Backend) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, func(*testing.T) statestore.Backend)
	}{
		{"Model", testModel},
		{"OverlayModel", testOverlayModel},
		{"EmptyIsNotNull", testEmptyIsNotNull},
		{"BinaryKeys", testBinaryKeys},
		{"DeletedInOverlay", testDeletedInOverlay},
		{"NeighbourKeysOfWindows", testNeighbourKeysOfWindows},
		{"ReadersSeeWhatIsApplied", testReadersSeeWhatIsApplied},
		{"ScanIsASnapshot", testScanIsASnapshot},
		{"LargeIngest", testLargeIngest},
		{"WipeAndDrop", testWipeAndDrop},
		{"Stored", testStored},
		{"DropAndCrash", testDropAndCrash},
		{"Roles", testRoles},
		{"ReleaseReaders", testReleaseReaders},
		{"ChangelogIdentity", testChangelogIdentity},
		{"ChangelogOfTheLastWrite", testChangelogOfTheLastWrite},
		{"ChangelogForgotten", testChangelogForgotten},
		{"ChangelogAndCrash", testChangelogAndCrash},
		{"Misuse", testMisuse},
		{"Restart", testRestart},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// row is a row as the tests write it down.
type row struct {
	Key, Value string
	Timestamp  int64
}

// collect reads an iterator to its end, and checks that a second Close is harmless.
func collect(t require.TestingT, it statestore.Iterator) []row {
	rows := []row{}
	for it.Next() {
		require.NotNil(t, it.Row().Value)
		rows = append(rows, row{string(it.Key()), string(it.Row().Value), it.Row().Timestamp})
	}
	require.NoError(t, it.Close())
	require.NoError(t, it.Close())
	require.False(t, it.Next())
	return rows
}

func put(key, value string, ts int64) statestore.Change {
	return statestore.Change{Key: []byte(key), Value: []byte(value), Timestamp: ts}
}

func del(key string) statestore.Change { return statestore.Change{Key: []byte(key)} }

// one is a batch for one store.
func one(store int, position int64, changes ...statestore.Change) *statestore.Batch {
	return &statestore.Batch{Stores: []statestore.StoreBatch{{Store: store, Changes: changes, Position: position}}}
}

// fixture is a backend with one task of one ordered store.
type fixture struct {
	b  statestore.Backend
	ts statestore.TaskStores
}

var oneTask = statestore.TaskID{Subtopology: 1, Partition: 2}

func setup(t *testing.T, open func(*testing.T) statestore.Backend) *fixture {
	f := &fixture{b: open(t)}
	f.open(t)
	t.Cleanup(func() {
		require.NoError(t, f.ts.Close())
		require.NoError(t, f.b.Close())
	})
	return f
}

func (f *fixture) open(t require.TestingT) {
	ts, err := f.b.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	f.ts = ts
}

// reversed returns the rows from the end.
func reversed(rows []row) []row {
	out := make([]row, 0, len(rows))
	for i := len(rows) - 1; i >= 0; i-- {
		out = append(out, rows[i])
	}
	return out
}
