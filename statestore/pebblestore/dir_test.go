package pebblestore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/statestore"
)

// holdEnv makes the test binary a second process that holds a state directory until its standard input ends.
const holdEnv = "PEBBLESTORE_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
		return
	}
	if os.Getenv(brokenEnv) != "" || os.Getenv(faultsEnv) != "" {
		os.Exit(m.Run()) // leaves goroutines behind
	}
	goleak.VerifyTestMain(m)
}

func hold(stateDir string) {
	d, err := OpenDir(stateDir, "app", smallOptions())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("holds as %x\n", d.ProcessID)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := d.Close(); err != nil {
		os.Exit(1)
	}
}

func smallOptions() Options { return Options{Memory: 16 << 20} }

// holder starts the second process and returns what it says first.
func holder(t *testing.T, stateDir string) (cmd *exec.Cmd, stdin io.Closer, said string) {
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+stateDir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd, in, strings.TrimSpace(said)
}

func TestSecondProcessIsRefused(t *testing.T) {
	state := t.TempDir()
	cmd, stdin, said := holder(t, state)
	require.True(t, strings.HasPrefix(said, "holds as "), said)

	_, err := OpenDir(state, "app", smallOptions())
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, &LockedError{Dir: filepath.Join(state, "app"), PID: cmd.Process.Pid}, locked)
	require.ErrorContains(t, err, fmt.Sprintf("%s is in use by process %d", locked.Dir, locked.PID))

	other, err := OpenDir(state, "another", smallOptions())
	require.NoError(t, err, "another application has a directory of its own")
	require.NoError(t, other.Close())

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	_ = stdin.Close()
	d, err := OpenDir(state, "app", smallOptions())
	require.NoError(t, err, "the lock dies with its process")
	require.Equal(t, "holds as "+fmt.Sprintf("%x", d.ProcessID), said, "the process id survives a restart")
	require.NotZero(t, d.ProcessID)

	cmd, stdin, said = holder(t, state)
	require.Contains(t, said, fmt.Sprintf("in use by process %d", os.Getpid()))
	require.Error(t, cmd.Wait())
	_ = stdin.Close()

	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	cmd, stdin, said = holder(t, state)
	require.True(t, strings.HasPrefix(said, "holds as "), said)
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
}

func TestDirThatCannotBeUsed(t *testing.T) {
	state := t.TempDir()
	file := filepath.Join(state, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	readOnly := filepath.Join(state, "read-only")
	require.NoError(t, os.Mkdir(readOnly, 0o500))
	lockIsDir := filepath.Join(state, "odd")
	require.NoError(t, os.MkdirAll(filepath.Join(lockIsDir, "app", lockName), 0o700))
	idIsDir := filepath.Join(state, "odder")
	require.NoError(t, os.MkdirAll(filepath.Join(idIsDir, "app", processIDName), 0o700))

	for _, c := range []struct {
		name, stateDir string
		notAsRoot      bool
	}{
		{name: "not set", stateDir: ""},
		{name: "below a file", stateDir: file},
		{name: "read only", stateDir: readOnly, notAsRoot: true},
		{name: "lock cannot be made", stateDir: lockIsDir},
		{name: "process id cannot be read", stateDir: idIsDir},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.notAsRoot && os.Geteuid() == 0 {
				t.Skip("root may write anywhere")
			}
			start := time.Now()
			_, err := OpenDir(c.stateDir, "app", smallOptions())
			var dirErr *DirError
			require.ErrorAs(t, err, &dirErr)
			require.Equal(t, "StateDir", dirErr.Field)
			require.Equal(t, filepath.Join(c.stateDir, "app"), dirErr.Dir)
			require.ErrorContains(t, err, "Config.StateDir")
			require.ErrorContains(t, err, dirErr.Err.Error(), "the cause")
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}
	for _, id := range []string{"", "a/b", "..", "."} {
		_, err := OpenDir(state, id, smallOptions())
		require.ErrorContains(t, err, "choose another application id")
	}
}

// withRows makes a state directory whose database has rows on disk.
func withRows(t *testing.T, state string) {
	d, err := OpenDir(state, "app", smallOptions())
	require.NoError(t, err)
	ts, err := d.DB.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	b := &statestore.Batch{Stores: []statestore.StoreBatch{{Position: 1000}}}
	for i := range 1000 {
		b.Stores[0].Changes = append(b.Stores[0].Changes, statestore.Change{Key: benchKey(i), Value: benchKey(i * i)})
	}
	require.NoError(t, ts.Apply(b))
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

func TestDatabaseThatDoesNotOpenIsPutAside(t *testing.T) {
	for _, c := range []struct {
		name    string
		pattern string
		damage  func(t *testing.T, path string)
	}{
		{"manifest overwritten", "MANIFEST-*", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("not a manifest, but long enough to be read as one"), 0o600))
		}},
		{"manifest gone", "MANIFEST-*", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }},
		{"corrupt block was seen", "CURRENT*", func(t *testing.T, path string) {
			require.NoError(t, mark(vfs.Default, filepath.Dir(path), errors.New("a bad block")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := t.TempDir()
			withRows(t, state)
			files, err := filepath.Glob(filepath.Join(state, "app", dbName, c.pattern))
			require.NoError(t, err)
			if len(files) == 0 {
				files = []string{filepath.Join(state, "app", dbName, "any")}
			}
			c.damage(t, files[0])

			core, logs := observer.New(zap.InfoLevel)
			opts := smallOptions()
			opts.Log = zap.New(core)
			opts.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600)) }
			d, err := OpenDir(state, "app", opts)
			require.NoError(t, err)
			require.Equal(t, filepath.Join(state, "app", "db.corrupt-20260102T020405.000Z"), d.PutAside)
			require.DirExists(t, d.PutAside)
			require.Equal(t, 1, logs.FilterMessageSnippet("put aside").Len())
			tasks, err := d.DB.Tasks()
			require.NoError(t, err)
			require.Empty(t, tasks)
			require.NoError(t, d.Close())

			d, err = OpenDir(state, "app", opts)
			require.NoError(t, err)
			require.Empty(t, d.PutAside, "once")
			require.NoError(t, d.Close())
		})
	}
}

// A block that goes bad under a running database fails the read, and the next start begins anew. The process lives.
func TestCorruptBlock(t *testing.T) {
	state := t.TempDir()
	withRows(t, state)
	tables, err := filepath.Glob(filepath.Join(state, "app", dbName, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, path := range tables {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		if len(b) < 16<<10 {
			continue // names
		}
		for i := len(b) / 4; i < len(b)/2; i++ { // positions are in the first block, what the table has is at its end
			b[i] ^= 0x55
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	opts := smallOptions()
	reported := make(chan error, 1)
	opts.Listener.Corrupt = func(err error) { reported <- err }
	d, err := OpenDir(state, "app", opts)
	require.NoError(t, err)
	require.Empty(t, d.PutAside)
	ts, err := d.DB.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	require.NoError(t, d.DB.Corruption())
	failed := 0
	for i := range 1000 {
		row, found, err := ts.Reader(0).Get(benchKey(i))
		if err != nil {
			failed++
			continue
		}
		require.True(t, found)
		require.Equal(t, benchKey(i*i), row.Value)
	}
	require.Positive(t, failed)
	it := ts.Reader(0).Scan(nil, nil, false)
	for it.Next() {
	}
	require.Error(t, it.Close())
	require.Error(t, <-reported, "once")
	require.Empty(t, reported)
	require.ErrorContains(t, d.DB.Corruption(), ".sst")
	require.NoError(t, ts.Close())
	_ = d.Close()

	d, err = OpenDir(state, "app", opts)
	require.NoError(t, err)
	require.NotEmpty(t, d.PutAside)
	require.NoError(t, d.Close())
}

func TestProcessIDThatIsDamagedIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, processIDName), []byte("damaged"), 0o600))
	id, err := processID(vfs.Default, dir)
	require.NoError(t, err)
	require.NotZero(t, id)
	again, err := processID(vfs.Default, dir)
	require.NoError(t, err)
	require.Equal(t, id, again)
}

func TestTemporaryStateDirIsWarnedAbout(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	log := zap.New(core)
	warnIfTemporary(filepath.Join(os.TempDir(), "state"), log)
	require.Equal(t, 1, logs.Len())
	warnIfTemporary(filepath.Dir(os.TempDir()), log)
	warnIfTemporary(filepath.Join(filepath.Dir(filepath.Clean(os.TempDir())), "elsewhere"), log)
	require.Equal(t, 1, logs.Len())
}

func TestCloseOfADirWithOpenTasks(t *testing.T) {
	d, err := OpenDir(t.TempDir(), "app", smallOptions())
	require.NoError(t, err)
	ts, err := d.DB.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.ErrorContains(t, d.Close(), "close them first")
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}
