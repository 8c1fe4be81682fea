package offsetstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

type offsets = map[streams.TopicPartition]int64

var parts = []streams.TopicPartition{{Topic: "t"}, {Topic: "t", Partition: 1}}

// large makes a file of several blocks, of which a crash may leave some.
var large = strings.Repeat("g", 6000)

// fileBed saves to a file on a disk that a test can stop or spoil at any operation.
type fileBed struct {
	t     *testing.T
	mem   *vfs.MemFS
	file  *File
	ops   int
	at    func(op errorfs.Op) error
	saved offsets // by the last save that returned without an error
	begun offsets // by the one that is under way
}

func newFileBed(t *testing.T) *fileBed {
	b := &fileBed{t: t, mem: vfs.NewCrashableMem()}
	fs := errorfs.Wrap(b.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		b.ops++
		if b.at == nil {
			return nil
		}
		return b.at(op)
	}))
	var err error
	b.file, err = openFile(fs, "offsets")
	require.NoError(t, err)
	return b
}

func (b *fileBed) save(n int64) error {
	b.begun = offsets{parts[0]: n, parts[1]: 2 * n}
	err := b.file.Save(b.t.Context(), large, 1, b.begun)
	if err == nil {
		b.saved = b.begun
	}
	return err
}

// left is what a process finds that starts on what is left of the disk.
func left(t *testing.T, fs vfs.FS) offsets {
	t.Helper()
	f, err := openFile(fs, "offsets")
	require.NoError(t, err)
	have, err := f.Load(context.Background(), large, parts)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return have
}

func (b *fileBed) crash(rng *rand.Rand) offsets {
	return left(b.t, b.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
}

// Wherever a machine stops, the file is as before the save or as after it, and as after it once the save has returned.
func TestFileSurvivesACrashAtEachOperation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	b := newFileBed(t)
	before, after := 0, 0
	b.at = func(op errorfs.Op) error {
		for range 12 {
			switch have := b.crash(rng); {
			case maps.Equal(have, b.saved):
				before++
			case maps.Equal(have, b.begun):
				after++
			default:
				require.Failf(t, "neither the old nor the new", "at %v: %v where %v or %v is right", op.Kind, have, b.saved, b.begun)
			}
		}
		return nil
	}
	for n := range int64(10) {
		require.NoError(t, b.save(n))
		require.Equal(t, b.saved, b.crash(rng), "what has been saved is there")
	}
	require.Positive(t, before)
	require.Positive(t, after)
}

// Whatever operation fails, the save says so, what was saved stays, and the next save is as if nothing had been.
func TestFileAndADiskThatFails(t *testing.T) {
	probe := newFileBed(t)
	first := probe.ops
	require.NoError(t, probe.save(1))
	count := probe.ops - first
	require.GreaterOrEqual(t, count, 5, "create, write, sync, rename, open the directory, sync it")
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		for nth := range count {
			t.Run(fmt.Sprint(errno, " at operation ", nth), func(t *testing.T) {
				b := newFileBed(t)
				require.NoError(t, b.save(1))
				old, begin := b.saved, b.ops
				b.at = func(errorfs.Op) error {
					if b.ops-begin > nth {
						return errno // and at all that follow
					}
					return nil
				}
				err := b.save(2)
				require.ErrorIs(t, err, errno)
				require.ErrorContains(t, err, "offsets")
				require.Equal(t, old, b.saved)
				have, err := b.file.Load(t.Context(), large, parts)
				require.NoError(t, err)
				require.Equal(t, old, have)
				require.Contains(t, []offsets{old, b.begun}, b.crash(rand.New(rand.NewPCG(2, uint64(nth)))))
				b.at = nil
				require.NoError(t, b.save(3))
				require.Equal(t, b.saved, b.crash(rand.New(rand.NewPCG(3, uint64(nth)))))
			})
		}
	}
}

// halfFS writes half of what it is given, as a disk that gets full.
type halfFS struct {
	vfs.FS
	full bool
}

type halfFile struct{ vfs.File }

func (f *halfFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if f.full && err == nil {
		return halfFile{file}, nil
	}
	return file, err
}

func (f halfFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:len(p)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

func TestFileThatIsHalfWritten(t *testing.T) {
	disk := &halfFS{FS: vfs.NewMem()}
	f, err := openFile(disk, "offsets")
	require.NoError(t, err)
	require.NoError(t, f.Save(t.Context(), large, 1, offsets{parts[0]: 1}))
	disk.full = true
	require.ErrorIs(t, f.Save(t.Context(), large, 1, offsets{parts[0]: 2}), syscall.ENOSPC)
	require.NoError(t, f.Close())
	disk.full = false
	require.Equal(t, offsets{parts[0]: 1}, left(t, disk))
	names, err := disk.List("")
	require.NoError(t, err)
	require.NotContains(t, names, "offsets.new", "it gives the room back")
}

// A beginning that fails leaves nothing that a second one stumbles over.
func TestFileThatCannotBeMade(t *testing.T) {
	disk := &halfFS{FS: vfs.NewMem(), full: true}
	_, err := openFile(disk, "offsets")
	require.ErrorIs(t, err, syscall.ENOSPC)
	disk.full = false
	require.Empty(t, left(t, disk))
}
