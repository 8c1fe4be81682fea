package offsetstore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
)

var orders0 = streams.TopicPartition{Topic: "orders", Partition: 0}

func openFile(t *testing.T, path string) *offsetstore.File {
	t.Helper()
	f, err := offsetstore.OpenFile(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestFileCanBeReadByPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	f := openFile(t, path)
	require.NoError(t, f.Save(t.Context(), "settlement", 12, map[streams.TopicPartition]int64{orders0: 1207}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "understudy offsets 1, crc32c 8f1294ef, 50 bytes\n\"settlement\" \"orders\" 0 offset 1207 generation 12\n", string(text))
	require.NoFileExists(t, path+".new")
}

// A damaged file is an error that says which and what to do, and stays as it is for whoever can mend it.
func TestFileThatIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	f := openFile(t, path)
	require.NoError(t, f.Save(t.Context(), "g", 1, map[streams.TopicPartition]int64{orders0: 9}))
	require.NoError(t, f.Close())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(text []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err := offsetstore.OpenFile(path)
		var damaged *offsetstore.DamagedError
		require.ErrorAs(t, err, &damaged)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "Put a copy of it back")
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(text), string(left))
	}
	for n := range good {
		refused(good[:n])
		flipped := append([]byte(nil), good...)
		flipped[n] ^= 4
		refused(flipped)
	}
	refused(append(good, '\n'))
	require.NoError(t, os.WriteFile(path, good, 0o600))
	have, err := openFile(t, path).Load(t.Context(), "g", []streams.TopicPartition{orders0})
	require.NoError(t, err)
	require.Equal(t, map[streams.TopicPartition]int64{orders0: 9}, have)
}

func TestFileOfANewerProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	require.NoError(t, os.WriteFile(path, []byte("understudy offsets 2, crc32c 00000000, 0 bytes\n"), 0o600))
	_, err := offsetstore.OpenFile(path)
	require.ErrorContains(t, err, "of version 2")
	require.ErrorContains(t, err, "newer program")
}

func TestFileIsOfOneStoreAtATime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "offsets")
	f := openFile(t, path)
	require.NoError(t, os.Symlink(path, filepath.Join(dir, "alias")))
	for _, name := range []string{path, filepath.Join(dir, ".", "alias")} {
		_, err := offsetstore.OpenFile(name)
		require.ErrorContains(t, err, path+".lock")
		require.ErrorContains(t, err, "a file of its own")
	}
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	openFile(t, path)
}

func TestFileIsOfOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderEnv+"="+path)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln("opened", nil), line)

	_, err = offsetstore.OpenFile(path)
	require.ErrorContains(t, err, "a file of its own")
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	openFile(t, path) // what is dead holds nothing
}

func TestFileThatIsClosed(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "offsets"))
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Save(context.Background(), "g", 1, map[streams.TopicPartition]int64{orders0: 1}), os.ErrClosed)
	_, err := f.Load(context.Background(), "g", []streams.TopicPartition{orders0})
	require.ErrorIs(t, err, os.ErrClosed)
}

func TestFileWhereNothingCanBe(t *testing.T) {
	_, err := offsetstore.OpenFile(filepath.Join(t.TempDir(), "missing", "offsets"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
