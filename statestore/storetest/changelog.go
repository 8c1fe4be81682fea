package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

var (
	unknownTopic = [16]byte{}
	oneTopic     = [16]byte{1, 15: 1}
	otherTopic   = [16]byte{1, 15: 2}
)

// changelogs opens, writes and checks a task of two stores; the second one is always of the same topic and stays as it is.
type changelogs struct {
	b  statestore.Backend
	ts statestore.TaskStores
}

func (c *changelogs) open(t *testing.T, topic [16]byte) {
	t.Helper()
	var err error
	c.ts, err = c.b.Open(oneTask, []statestore.Spec{
		{Name: "rows", Ordered: true, Changelog: topic}, {Name: "neighbour", Ordered: true, Changelog: oneTopic},
	})
	require.NoError(t, err)
	require.False(t, c.ts.Stale(1))
}

func (c *changelogs) write(t *testing.T) {
	t.Helper()
	for s := range 2 {
		require.NoError(t, c.ts.Apply(one(s, 7, put("k", "v", 1))))
	}
}

// again closes the task and opens it, in a backend that is reopened if it can be.
func (c *changelogs) again(t *testing.T, topic [16]byte) {
	t.Helper()
	require.NoError(t, c.ts.Close())
	if r, ok := c.b.(Reopener); ok {
		var err error
		c.b, err = r.Reopen()
		require.NoError(t, err)
	}
	c.open(t, topic)
}

// is checks whether the store holds what write wrote; the neighbour does.
func (c *changelogs) is(t *testing.T, kept bool) {
	t.Helper()
	for s, there := range []bool{kept, true} {
		position, rows := statestore.NoPosition, 0
		if there {
			position, rows = 7, 1
		}
		require.Equal(t, position, c.ts.Position(s))
		require.Len(t, collect(t, c.ts.Reader(s).Scan(nil, nil, false)), rows)
	}
	tasks, err := c.b.Tasks()
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.Equal(t, kept, tasks[0].Store("rows").Position == 7)
}

func (c *changelogs) close(t *testing.T) {
	require.NoError(t, c.ts.Close())
	require.NoError(t, c.b.Close())
}

// A store belongs to the topic that its position is an offset of. Topics that are not known leave it alone, and are not what it is
// remembered by.
func testChangelogIdentity(t *testing.T, open func(*testing.T) statestore.Backend) {
	for _, c := range []struct {
		name   string
		topics [][16]byte // given to one opening after the other
		writes int        // the store is written in that many of them
		stale  bool       // at the last
	}{
		{"same", [][16]byte{oneTopic, oneTopic}, 1, false},
		{"other", [][16]byte{oneTopic, otherTopic}, 1, true},
		{"never known", [][16]byte{unknownTopic, unknownTopic}, 1, false},
		{"known later", [][16]byte{unknownTopic, oneTopic}, 1, false},
		{"not known any more", [][16]byte{oneTopic, unknownTopic}, 1, false},
		{"same after a time unknown", [][16]byte{oneTopic, unknownTopic, oneTopic}, 2, false},
		{"other after a time unknown", [][16]byte{oneTopic, unknownTopic, otherTopic}, 1, true},
		{"other after writes while unknown", [][16]byte{oneTopic, unknownTopic, otherTopic}, 2, true},
		{"other after writes under the first known", [][16]byte{unknownTopic, oneTopic, otherTopic}, 2, true},
		{"never written while known", [][16]byte{unknownTopic, oneTopic, otherTopic}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &changelogs{b: open(t)}
			f.open(t, c.topics[0])
			require.False(t, f.ts.Stale(0), "a new store")
			f.write(t)
			last := len(c.topics) - 1
			for i, topic := range c.topics[1:last] {
				f.again(t, topic)
				require.False(t, f.ts.Stale(0))
				f.is(t, true)
				if i+1 < c.writes {
					f.write(t)
				}
			}
			f.again(t, c.topics[last])
			require.Equal(t, c.stale, f.ts.Stale(0))
			f.is(t, !c.stale)
			f.again(t, c.topics[last])
			require.False(t, f.ts.Stale(0), "only the opening that wiped it says so")
			f.is(t, !c.stale)
			f.close(t)
		})
	}
}

// What is written last says which topic the store belongs to, whatever path it takes.
func testChangelogOfTheLastWrite(t *testing.T, open func(*testing.T) statestore.Backend) {
	for name, rewrite := range map[string]func(c *changelogs) error{
		"apply": func(c *changelogs) error { return c.ts.Apply(one(0, 7, put("k", "v", 1))) },
		"ingest": func(c *changelogs) error {
			return c.ts.Ingest(one(0, 7, put("k", strings.Repeat("v", 1<<20), 1))) // large enough for tables
		},
		"wipe": func(c *changelogs) error {
			if err := c.ts.Wipe(0); err != nil {
				return err
			}
			return c.ts.Apply(one(0, 7, put("k", "v", 1)))
		},
	} {
		for first, topic := range map[string][16]byte{"unknown": unknownTopic, "other": oneTopic} {
			t.Run(name+" after "+first, func(t *testing.T) {
				f := &changelogs{b: open(t)}
				f.open(t, topic)
				f.write(t)
				f.again(t, otherTopic)
				require.NoError(t, rewrite(f))
				f.again(t, otherTopic)
				require.False(t, f.ts.Stale(0))
				f.is(t, true)
				f.again(t, oneTopic)
				require.True(t, f.ts.Stale(0))
				f.is(t, false)
				f.close(t)
			})
		}
	}
	t.Run("rows without a position", func(t *testing.T) {
		f := &changelogs{b: open(t)}
		f.open(t, oneTopic)
		f.write(t)
		require.NoError(t, f.ts.Apply(one(0, -1, put("k", "v2", 1))))
		f.again(t, otherTopic)
		require.True(t, f.ts.Stale(0))
		f.is(t, false)
		f.close(t)
	})
}

// A store that was wiped, or dropped, belongs to no topic.
func testChangelogForgotten(t *testing.T, open func(*testing.T) statestore.Backend) {
	t.Run("wipe", func(t *testing.T) {
		f := &changelogs{b: open(t)}
		f.open(t, oneTopic)
		f.write(t)
		f.again(t, unknownTopic)
		require.NoError(t, f.ts.Wipe(0))
		f.again(t, otherTopic)
		require.False(t, f.ts.Stale(0))
		f.is(t, false)
		f.again(t, oneTopic)
		f.write(t)
		f.again(t, unknownTopic)
		require.NoError(t, f.ts.Wipe(0))
		f.write(t) // restored from what is not known to be the same
		f.again(t, otherTopic)
		require.False(t, f.ts.Stale(0))
		f.is(t, true)
		f.close(t)
	})
	t.Run("drop", func(t *testing.T) {
		f := &changelogs{b: open(t)}
		f.open(t, oneTopic)
		f.write(t)
		require.NoError(t, f.ts.Drop())
		f.open(t, otherTopic)
		require.False(t, f.ts.Stale(0))
		require.Equal(t, statestore.NoPosition, f.ts.Position(0))
		f.close(t)
	})
}

// What an opening has wiped does not come back after a crash, and what is written after it is not wiped again.
func testChangelogAndCrash(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := &changelogs{b: open(t)}
	if _, ok := f.b.(Reopener); !ok {
		require.NoError(t, f.b.Close())
		t.Skip("this backend cannot be reopened")
	}
	crash := func(topic [16]byte) {
		t.Helper()
		var err error
		f.b, err = f.b.(Reopener).Crash()
		require.NoError(t, err)
		f.open(t, topic)
	}
	f.open(t, oneTopic)
	f.write(t)
	require.NoError(t, f.b.Flush())
	crash(oneTopic)
	f.is(t, true)
	crash(otherTopic)
	require.True(t, f.ts.Stale(0))
	crash(oneTopic) // the first topic again: if anything were left it would be taken for good
	require.False(t, f.ts.Stale(0), "the wipe is durable")
	f.is(t, false)
	f.write(t)
	require.NoError(t, f.b.Flush())
	crash(oneTopic)
	require.False(t, f.ts.Stale(0))
	f.is(t, true)
	f.close(t)
}
