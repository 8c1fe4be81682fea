package streams_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/streams"
)

// damage is something that happens to files of a state directory.
type damage struct {
	pattern string // of their paths, from the application's directory
	do      func(t *testing.T, path string)
}

func flipped(t *testing.T, path string) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 0; i < len(b); i += 16 {
		b[i] ^= 0x55
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func halved(t *testing.T, path string) {
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()/2))
}

func emptied(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) }

func removed(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }

// apply damages the files, and reports how many.
func (d damage) apply(t *testing.T, dir string) int {
	files, err := filepath.Glob(filepath.Join(dir, d.pattern))
	require.NoError(t, err)
	for _, path := range files {
		d.do(t, path)
	}
	return len(files)
}

// aside are the databases that lie aside.
func aside(t *testing.T, dir string) []string {
	paths, err := filepath.Glob(filepath.Join(dir, "db.corrupt-*"))
	require.NoError(t, err)
	return paths
}

// manyWords are so many that their table has many blocks, and so large that a restore writes tables too.
func manyWords() []string {
	var words []string
	for i := range 5000 {
		words = append(words, fmt.Sprintf("%s%04d", strings.Repeat("word", 15), i*7919%5000))
	}
	return words
}

// Whatever happens to the files of a stopped application, its counts are right afterwards. A state that is damaged is put aside, in one line.
func TestAppDamagedBetweenTwoRuns(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	for _, c := range []struct {
		name string
		damage
		putAside bool
	}{
		{"table flipped", damage{"db/*.sst", flipped}, true},
		{"table halved", damage{"db/*.sst", halved}, true},
		{"table emptied", damage{"db/*.sst", emptied}, true},
		{"table removed", damage{"db/*.sst", removed}, true},
		{"manifest flipped", damage{"db/MANIFEST-*", flipped}, true},
		{"manifest emptied", damage{"db/MANIFEST-*", emptied}, true},
		{"manifest removed", damage{"db/MANIFEST-*", removed}, true},
		{"marker of the manifest removed", damage{"db/marker.manifest.*", removed}, true},
		{"marker of the format removed", damage{"db/marker.format-version.*", removed}, true},
		{"options flipped", damage{"db/OPTIONS-*", flipped}, true},
		{"options halved", damage{"db/OPTIONS-*", halved}, true},
		{"options removed", damage{"db/OPTIONS-*", removed}, false},
		{"lock removed", damage{"db/LOCK", removed}, false},
		{"process id flipped", damage{"process-id", flipped}, false},
		{"lock of the directory flipped", damage{"lock", flipped}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := b.in(t)
			app := strings.ReplaceAll(c.name, " ", "-")
			in, to := b.topic("in-"+app, 1), b.topic("out-"+app, 1)
			config := b.config(app)
			b.values(in, 0, "a a b c")
			r := b.run(countWords(in, to), config)
			r.until("the counts", func() bool { return len(b.counts(to)) == 3 })
			require.NoError(t, r.end())
			dir := filepath.Join(config.StateDir, config.ApplicationID)
			require.Positive(t, c.apply(t, dir))

			core, logs := observer.New(zap.WarnLevel)
			config.Log = zap.New(core)
			var paths []string
			config.Listener.PutAside = func(path string) { paths = append(paths, path) }
			r = b.run(countWords(in, to), config)
			b.values(in, 0, "a b b d")
			r.until("all counts", func() bool { return b.counts(to)["d"] == 1 })
			require.NoError(t, r.end())
			require.Equal(t, map[string]int64{"a": 3, "b": 3, "c": 1, "d": 1}, b.counts(to))
			require.Equal(t, aside(t, dir), paths)
			lines := logs.FilterMessageSnippet("put aside").Len()
			if c.putAside {
				require.Equal(t, 1, lines, "%v", logs.All())
				require.Len(t, paths, 1)
			} else {
				require.Zero(t, lines, "%v", logs.All())
			}
		})
	}
}

// A table goes bad under a running application. The first read that needs it ends the run, and another one begins by itself, with the state
// restored. A second time that soon ends the application, and the next start restores.
func TestAppDamagedWhileRunning(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	config := b.config("damaged")
	words := manyWords()
	for i := 0; i < len(words); i += 100 {
		b.values(in, 0, strings.Join(words[i:i+100], " "))
	}
	r := b.run(countWords(in, to), config)
	want := map[string]int64{}
	for _, w := range words {
		want[w] = 1
	}
	r.until("the counts", func() bool { return len(b.counts(to)) == len(words) })
	require.NoError(t, r.end())

	core, logs := observer.New(zap.WarnLevel)
	config.Log = zap.New(core)
	dir := filepath.Join(config.StateDir, config.ApplicationID)
	var states []streams.State
	config.Listener.State = func(s streams.State) { states = append(states, s) }
	r = b.run(countWords(in, to), config)
	r.ready()
	count := func(word string) {
		want[word]++
		b.values(in, 0, word)
	}
	tables := damage{"db/*.sst", flipped}
	require.Positive(t, tables.apply(t, dir))
	count(words[2500]) // nothing else is under way, so nothing is counted twice
	r.until("the count", func() bool { return b.counts(to)[words[2500]] == 2 })
	require.Len(t, aside(t, dir), 1)
	require.Equal(t, 1, logs.FilterMessageSnippet("put aside").Len())
	require.Equal(t, want, b.counts(to))
	r.ready()

	require.Positive(t, tables.apply(t, dir), "the restore has written tables")
	count(words[1300])
	err := r.fails()
	var se *streams.StoreError
	require.ErrorAs(t, err, &se)
	require.Equal(t, dir, se.Dir)
	require.ErrorContains(t, se, ".sst", "which file")
	require.ErrorContains(t, se, "restored from the changelogs", "and what is to be done")
	require.Len(t, aside(t, dir), 1)
	require.Equal(t, streams.StateClosed, r.app.State())
	require.Equal(t, streams.StateClosed, states[len(states)-1])
	require.Equal(t, 1, strings.Count(fmt.Sprint(states), "closed"), "%v", states)

	for i := range 2 { // what lies aside does not pile up
		r = b.run(countWords(in, to), config)
		r.until("the count", func() bool { return b.counts(to)[words[1300]] == 2+int64(i) })
		require.Len(t, aside(t, dir), 2)
		require.NoError(t, r.end())
		require.Positive(t, tables.apply(t, dir))
		count(words[1300])
	}
	require.Equal(t, 3, logs.FilterMessageSnippet("put aside").Len())
}
