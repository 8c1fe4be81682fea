package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rewriter is a counting task whose commits wait to be carried out.
func rewriter(t *testing.T) *world {
	w := newWorld(t, Config{Spec: countSpec(false), CommitInterval: time.Hour})
	w.holdCommits = true
	return w
}

func (w *world) changelog() []string {
	return w.out[TopicPartition{"counts-changelog", testID.Partition}.String()]
}

func TestRewriteWritesPresentRowsAgain(t *testing.T) {
	w := rewriter(t)
	w.feed(0, batch(3, rec(0, "a", "1", 5), rec(1, "b", "1", 6), rec(2, "a", "1", 7)))
	w.step(Commit{})
	require.EqualValues(t, 0, w.seals[0].Rewrites)
	w.commit(nil)
	rows, before := w.rows(0), w.changelog()
	require.Len(t, before, 2)

	w.step(Rewrite{Store: 0, Keys: [][]byte{[]byte("a"), []byte("gone")}})
	require.Len(t, w.seals, 1, "it commits at once")
	require.EqualValues(t, 1, w.seals[0].Rewrites, "and says what it covers")
	w.commit(nil)
	require.Equal(t, rows, w.rows(0))
	tombstone := show(OutRecord{Key: []byte("gone"), Timestamp: 7})
	require.Equal(t, append(before, before[0], tombstone), w.changelog(), "the row as it was, with its timestamp")
}

func TestRewriteBehindACommitThatIsOutstanding(t *testing.T) {
	w := rewriter(t)
	w.feed(0, batch(1, rec(0, "a", "1", 5)))
	w.step(Commit{})
	w.feed(0, batch(2, rec(1, "a", "1", 6)))
	w.step(Rewrite{Store: 0, Keys: [][]byte{[]byte("a")}})
	require.EqualValues(t, 0, w.seals[0].Rewrites, "it was cut before")
	w.commit(nil)
	require.EqualValues(t, 1, w.seals[0].Rewrites, "the next one follows at once")
	w.commit(nil)
	require.Equal(t, map[string]string{"a": "2@6"}, w.rows(0), "the row of now, not that of the last commit")
}

func TestRewriteOfATaskThatIsLost(t *testing.T) {
	w := rewriter(t)
	w.feed(0, batch(1, rec(0, "a", "1", 5)))
	w.step(Lost{})
	w.step(Rewrite{Store: 0, Keys: [][]byte{[]byte("a")}})
	require.Empty(t, w.changelog())
	require.Empty(t, w.seals)
}

func TestRewriteWhereTheStoreFails(t *testing.T) {
	w := rewriter(t)
	require.NoError(t, w.stores.Close())
	w.step(Rewrite{Store: 0, Keys: [][]byte{[]byte("a")}})
	var failed *Error
	require.ErrorAs(t, w.failed, &failed)
	require.Equal(t, KindStore, failed.Kind)
}

func TestRewriteOfATaskThatIsReleased(t *testing.T) {
	w := rewriter(t)
	w.feed(0, batch(1, rec(0, "a", "1", 5)))
	w.step(Release{})
	w.commit(nil)
	require.Equal(t, StateReleased, w.owner.State())
	w.step(Rewrite{Store: 0, Keys: [][]byte{[]byte("a")}})
	require.Equal(t, StateReleasing, w.owner.State())
	w.step(Release{})
	require.NotContains(t, w.actions, "Released", "not before it is committed")
	w.commit(nil)
	require.Contains(t, w.actions, "Released")
	require.Len(t, w.changelog(), 2)
}
