package streams_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

func TestAppWithStoresNeedsAStateDir(t *testing.T) {
	_, err := streams.New(countWords("in", "out"), streams.Config{ApplicationID: "a", Brokers: []string{"localhost:1"}})
	var ce *streams.ConfigError
	require.ErrorAs(t, err, &ce)
	require.Len(t, ce.Faults, 1)
	require.ErrorContains(t, err, "StateDir")
}

// F20 a: an application without stores needs no directory and makes none.
func TestAppF20WithoutStoresMakesNothing(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	b.values(in, 0, "v")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	empty := t.TempDir()
	t.Chdir(empty)
	for name, dir := range map[string]string{"unset": "", "unusable": filepath.Join(file, "state"), "unused": filepath.Join(empty, "state")} {
		c := b.config(name)
		c.StateDir = dir
		r := b.run(copyTopic(in, to), c)
		r.until("a commit", func() bool { return b.committedAt(name, in, 0) == 1 })
		require.NoError(t, r.end())
	}
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// F20 b: a state directory that cannot be used is found before the group is joined.
func TestAppF20StateDirThatCannotBeUsed(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	root := t.TempDir()
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	readOnly := filepath.Join(root, "read-only")
	require.NoError(t, os.Mkdir(readOnly, 0o500))
	dirs := map[string]string{"file": file, "below": filepath.Join(file, "deeper"), "kernel": "/proc", "readonly": readOnly}
	if os.Geteuid() == 0 {
		delete(dirs, "readonly") // root may write there; /proc refuses even root
	}
	for name, dir := range dirs {
		c := b.config(name)
		c.StateDir = dir
		began := time.Now()
		err := b.run(countWords(in, to), c).fails()
		require.Less(t, time.Since(began), 10*time.Second, "no broker is waited for")
		var de *streams.StateDirError
		require.ErrorAs(t, err, &de)
		require.Equal(t, filepath.Join(dir, b.name(name)), de.Dir)
		require.ErrorContains(t, err, "Config.StateDir")
		require.ErrorContains(t, err, de.Dir)
		require.ErrorContains(t, err, de.Err.Error())
		require.Nil(t, b.embedded.Cluster().GroupInfo(b.name(name)), "the group has not been joined")
		require.Zero(t, b.partitions(b.name(name+"-word-counts-changelog")), "nothing has been made")
	}
}

func TestAppStateDirInUse(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 2), b.topic("out", 1)
	c := b.config("shared")
	first := b.run(countWords(in, to), c)
	first.ready()
	var le *streams.StateDirLockedError
	err := b.run(countWords(in, to), c).fails()
	require.ErrorAs(t, err, &le)
	require.Equal(t, streams.StateDirLockedError{Dir: filepath.Join(c.StateDir, b.name("shared")), PID: os.Getpid()}, *le)
	require.ErrorContains(t, err, "StateDir")
	require.True(t, first.app.Ready(), "the first one does not notice")

	other := c
	other.StateDir = t.TempDir()
	second := b.run(countWords(in, to), other)
	second.ready()
	require.NoError(t, second.end(), "a directory of its own is all it takes")
	require.NoError(t, first.end())
	again := b.run(countWords(in, to), c)
	again.ready()
	require.NoError(t, again.end(), "the directory is free again")
}

// A store that is ahead of its changelog, or behind its beginning, belongs to another one.
func TestAppStoreThatDoesNotFitItsChangelogIsRebuilt(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		for name, c := range map[string]struct {
			happens func(b *bed, app, in, to, changelog string)
			why     string
			want    map[string]int64 // after one more "a b"
		}{
			"recreated": {func(b *bed, _, _, _, changelog string) {
				require.NoError(b.t, b.client.DeleteTopic(b.ctx(), changelog))
				require.Eventually(b.t, func() bool { return b.partitions(changelog) == 0 }, 10*time.Second, 20*time.Millisecond)
			}, "it was deleted and made anew", map[string]int64{"a": 1, "b": 1, "c": 1}},
			"cut": {func(b *bed, app, in, to, changelog string) {
				elsewhere := b.config(app)
				r := b.run(countWords(in, to), elsewhere)
				b.values(in, 0, "d")
				r.until("a count elsewhere", func() bool { return b.counts(to)["d"] == 1 })
				require.NoError(b.t, r.end())
				b.configure(changelog, "cleanup.policy", "compact,delete") // or a broker does not let it be cut
				b.deleteBelow(changelog, 0, int64(len(b.all(changelog))))
				b.configure(changelog, "cleanup.policy", "compact")
			}, "deletions may be missing", map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1}},
		} {
			in, to := b.topic("in-"+name, 1), b.topic("out-"+name, 1)
			config := b.config(name)
			b.values(in, 0, "a a b c")
			r := b.run(countWords(in, to), config)
			r.until("the counts", func() bool { return len(b.counts(to)) == 3 })
			require.NoError(t, r.end())
			changelog := b.name(name + "-word-counts-changelog")
			c.happens(b, name, in, to, changelog)

			var why []string
			config.Listener.Wiped = func(id streams.TaskID, topic string, partition int32, reason string) {
				require.Equal(t, changelog, topic)
				require.Equal(t, streams.TaskID{Subtopology: id.Subtopology}, id)
				why = append(why, reason)
			}
			r = b.run(countWords(in, to), config)
			r.ready()
			before := len(b.all(to))
			b.values(in, 0, "a b")
			r.until("new counts", func() bool { return len(b.all(to)) == before+2 })
			require.NoError(t, r.end())
			require.Len(t, why, 1)
			require.Contains(t, why[0], c.why)
			require.Equal(t, c.want, b.counts(to), "no row of the old store is left")

			r = b.run(countWords(in, to), config)
			r.ready()
			require.NoError(t, r.end())
			require.Len(t, why, 1, "once")
		}
	})
}

// F20 c: the directory goes away under a running application; nothing is lost with it.
func TestAppF20StateDirTakenAway(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	c := b.config("taken")
	c.CloseTimeout = time.Second
	r := b.run(countWords(in, to), c)
	b.values(in, 0, strings.Repeat("k ", 50))
	r.until("the first half", func() bool { return b.counts(to)["k"] == 50 })
	require.NoError(t, os.RemoveAll(c.StateDir))
	b.values(in, 0, strings.Repeat("k ", 50))
	select {
	case <-r.done: // it may notice at once, or at its end
		r.over = true
	case <-time.After(500 * time.Millisecond):
		if err := r.end(); err != nil {
			require.ErrorContains(t, err, c.StateDir)
		}
	}
	r = b.run(countWords(in, to), c)
	b.values(in, 0, "k")
	r.until("all", func() bool { return b.counts(to)["k"] >= 101 })
	require.NoError(t, r.end())
	last := int64(0)
	for _, rec := range b.all(to) {
		n := int64(rec.Value[7])
		require.GreaterOrEqual(t, n, last, "a count never goes back")
		last = n
	}
}
