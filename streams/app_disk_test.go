package streams_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// fullDisk is a disk that a test can fill.
type fullDisk interface {
	Path() string
	Files() vfs.FS // to be used on it; nil is the operating system's
	Fill()
	Free()
}

// failingFS plays a disk that fails: every write of a file gets the error.
type failingFS struct {
	vfs.FS
	path   string
	err    atomic.Pointer[syscall.Errno]
	scarce atomic.Bool // little is free, but some
}

func newFailingFS(t *testing.T) *failingFS { return &failingFS{FS: vfs.Default, path: t.TempDir()} }

func (f *failingFS) Path() string          { return f.path }
func (f *failingFS) Files() vfs.FS         { return f }
func (f *failingFS) Fill()                 { f.fail(syscall.ENOSPC) }
func (f *failingFS) Free()                 { f.err.Store(nil) }
func (f *failingFS) fail(no syscall.Errno) { f.err.Store(&no) }
func (f *failingFS) Unwrap() vfs.FS        { return f.FS }

func (f *failingFS) failure(name string) error {
	if no := f.err.Load(); no != nil {
		return &os.PathError{Op: "write", Path: name, Err: *no}
	}
	return nil
}

func (f *failingFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := f.FS.GetDiskUsage(path)
	switch {
	case f.failure(path) != nil:
		u.AvailBytes = 0
	case f.scarce.Load():
		u.AvailBytes = 1 << 20
	}
	return u, err
}

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.failure(name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return failingFile{file, f, name}, nil
}

type failingFile struct {
	vfs.File
	fs   *failingFS
	name string
}

func (f failingFile) Write(b []byte) (int, error) {
	if err := f.fs.failure(f.name); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// wordLoad writes lines whose words have one key in common and one that is new each time and long, so that the store grows.
type wordLoad struct {
	b     *bed
	topic string
	to    string
	lines int
	parts int32
}

func (l *wordLoad) more(n int) {
	for p := range l.parts {
		var values []string
		for range n {
			l.lines++
			values = append(values, fmt.Sprintf("common %0300d", l.lines))
		}
		l.b.values(l.topic, p, values...)
	}
}

// exact holds the counts against the truth.
func (l *wordLoad) exact(counts map[string]int64) error {
	if n := counts["common"]; n != int64(l.lines) {
		return fmt.Errorf("the common word was counted %d times, the truth is %d", n, l.lines)
	}
	if len(counts) != l.lines+1 {
		return fmt.Errorf("%d words, the truth is %d", len(counts), l.lines+1)
	}
	for w, n := range counts {
		if w != "common" && n != 1 {
			return fmt.Errorf("%s was counted %d times", strings.TrimLeft(w, "0"), n)
		}
	}
	return nil
}

// said collects what the listener is told about the disk.
type said struct {
	mu        sync.Mutex
	suspended []*streams.NoRoomError
	resumed   int
}

func (s *said) listen(l *streams.Listener) {
	l.Suspended = func(why *streams.NoRoomError) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.suspended = append(s.suspended, why)
	}
	l.Resumed = func(time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.resumed++
	}
}

func (s *said) times() (suspended, resumed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.suspended), s.resumed
}

// onDisk makes a configuration whose state is on a disk that can be filled.
func (b *bed) onDisk(name string, d fullDisk) (streams.Config, *said) {
	c := b.config(name)
	c.StateDir, c.Memory, c.CommitInterval = d.Path(), 32<<20, 100*time.Millisecond
	s := &said{}
	s.listen(&c.Listener)
	return c, s
}

func (b *bed) runOn(builder *streams.Builder, c streams.Config, d fullDisk, tune ...func(*shell.Config)) *running {
	b.stateFS = d.Files()
	defer func() { b.stateFS = nil }()
	return b.run(builder, c, tune...)
}

// suspends writes until the application notices that its disk is full.
func (l *wordLoad) suspends(r *running) {
	r.until("suspended", func() bool {
		if r.app.State() == streams.StateSuspended {
			return true
		}
		l.more(200)
		return false
	})
}

// members counts the members of a group.
func (b *bed) members(group string) int {
	b.t.Helper()
	if info := b.embedded.Cluster().GroupInfo(group); info != nil {
		return len(info.Members)
	}
	return 0
}

// A full disk suspends the tasks of a process; others take them over. It comes back by itself when there is room, and nothing is lost or
// counted twice.
func TestAppFullDisk(t *testing.T) { testFullDisk(t, newFailingFS(t)) }

func testFullDisk(t *testing.T, d fullDisk) {
	notShort(t)
	b := embeddedBed(t)
	in, to := b.topic("in", 2), b.topic("out", 2)
	var left, beats atomic.Int32
	cluster := b.embedded.Cluster()
	cluster.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		switch kmsg.Key(req.Key()) {
		case kmsg.LeaveGroup:
			left.Add(1)
		case kmsg.Heartbeat:
			beats.Add(1)
		}
		return nil, nil, false
	})
	c, said := b.onDisk("full", d)
	r := b.runOn(countWords(in, to), c, d)
	l := &wordLoad{b: b, topic: in, parts: 2}
	l.more(500)
	r.until("the first counts", func() bool { return l.exact(b.counts(to)) == nil })

	d.Fill()
	l.suspends(r)
	r.until("gone from the group", func() bool { return b.members(b.name("full")) == 0 })
	require.EqualValues(t, 1, left.Load(), "it says goodbye")
	suspended, resumed := said.times()
	require.Equal(t, []int{1, 0}, []int{suspended, resumed})
	require.Equal(t, filepath.Join(c.StateDir, b.name("full")), said.suspended[0].Dir)
	require.ErrorContains(t, said.suspended[0], said.suspended[0].Dir)
	time.Sleep(200 * time.Millisecond) // what is on its way
	sent, before := beats.Load(), cpu(t)
	time.Sleep(time.Second)
	require.Less(t, cpu(t)-before, 400*time.Millisecond, "no core burns")
	require.Equal(t, sent, beats.Load(), "no heartbeats")
	require.Equal(t, streams.StateSuspended, r.app.State())
	require.False(t, r.app.Ready())

	other := c
	other.StateDir, other.Listener = t.TempDir(), streams.Listener{}
	second := b.run(countWords(in, to), other)
	second.ready()
	l.more(100)
	second.until("the second process has taken over", func() bool { return l.exact(b.counts(to)) == nil })
	require.Equal(t, streams.StateSuspended, r.app.State())

	d.Free()
	r.until("back by itself", func() bool { return b.members(b.name("full")) == 2 && r.app.Ready() })
	l.more(100)
	r.until("all counts", func() bool { return l.exact(b.counts(to)) == nil })
	require.NoError(t, second.end())
	l.more(100)
	r.until("all counts, alone", func() bool { return l.exact(b.counts(to)) == nil })
	require.NoError(t, r.end())
	suspended, resumed = said.times()
	require.Equal(t, []int{1, 1}, []int{suspended, resumed})
}

// A process that is alone waits; it can be ended meanwhile, and has lost nothing.
func TestAppFullDiskAlone(t *testing.T) {
	notShort(t)
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	d := newFailingFS(t)
	c, said := b.onDisk("alone", d)
	r := b.runOn(countWords(in, to), c, d)
	l := &wordLoad{b: b, topic: in, parts: 1}
	d.Fill()
	l.suspends(r)
	r.until("gone from the group", func() bool { return b.members(b.name("alone")) == 0 })
	l.more(100)
	began := time.Now()
	require.NoError(t, r.end(), "all was committed")
	require.Less(t, time.Since(began), 8*time.Second)

	r = b.runOn(countWords(in, to), c, d)
	r.until("suspended from the start", func() bool { return r.app.State() == streams.StateSuspended })
	began = time.Now()
	require.NoError(t, r.app.Close(b.ctx()))
	require.NoError(t, r.fails())
	require.Less(t, time.Since(began), 8*time.Second)

	r = b.runOn(countWords(in, to), c, d)
	r.until("suspended from the start", func() bool { return r.app.State() == streams.StateSuspended })
	suspended, resumed := said.times()
	require.Equal(t, []int{3, 0}, []int{suspended, resumed})
	d.Free()
	r.until("all counts", func() bool { return l.exact(b.counts(to)) == nil })
	require.NoError(t, r.end())
	suspended, resumed = said.times()
	require.Equal(t, []int{3, 1}, []int{suspended, resumed})
}

// A database that blocks a write says nothing: the deadline of the write tells. What is blocked keeps nobody in the group.
func TestAppFullDiskThatBlocksWrites(t *testing.T) {
	notShort(t)
	t.Parallel()
	r, l, d := blockedByDisk(t)
	d.Free()
	r.until("all counts", func() bool { return l.exact(l.b.counts(l.to)) == nil })
	require.NoError(t, r.end())
}

// Nor does it hold up the end. What is blocked stays until the process ends, so it is one of its own.
func TestAppEndOnAFullDiskThatBlocksWrites(t *testing.T) {
	notShort(t)
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	r, l, d := blockedByDisk(t)
	began := time.Now()
	require.NoError(t, r.end(), "all was committed")
	require.Less(t, time.Since(began), 8*time.Second)
	d.Free()
	c := l.b.config("blocked")
	r = l.b.run(countWords(l.topic, l.to), c)
	r.until("all counts", func() bool { return l.exact(l.b.counts(l.to)) == nil })
	require.NoError(t, r.end())
}

// ownProcessEnv makes the test binary a process of its own for one test.
const ownProcessEnv = "STREAMS_TEST_OWN_PROCESS"

// ownProcess runs the test in a process of its own, which a database that cannot be closed needs, and reports whether this is it.
func ownProcess(t *testing.T) bool {
	if os.Getenv(ownProcessEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), ownProcessEnv+"=1")
	out, err := cmd.CombinedOutput() // the error is that goroutines are left
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "%v", err)
	return false
}

// blockedByDisk runs an application until it is out of the group because its disk is full, with writes that wait for room.
func blockedByDisk(t *testing.T) (*running, *wordLoad, fullDisk) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	d := newFailingFS(t)
	c, _ := b.onDisk("blocked", d)
	r := b.runOn(countWords(in, to), c, d, func(s *shell.Config) { s.Disk, s.WriteDeadline = quietDisk{s.Disk}, 500*time.Millisecond })
	l := &wordLoad{b: b, topic: in, to: to, parts: 1}
	r.ready()
	d.Fill()
	l.suspends(r)
	r.until("gone from the group", func() bool { return b.members(b.name("blocked")) == 0 })
	return r, l, d
}

// quietDisk tells nobody of errors that come up apart from a write.
type quietDisk struct{ shell.Disk }

func (quietDisk) Watch(func(error)) {}

// A restore leaves some room on the disk, for what else there is on it.
func TestAppRestoreOntoADiskWithLittleRoom(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	l := &wordLoad{b: b, topic: in, parts: 1}
	first := b.run(countWords(in, to), b.config("little"))
	l.more(2000) // a bulk write is larger than what is just applied
	first.until("the counts", func() bool { return l.exact(b.counts(to)) == nil })
	require.NoError(t, first.end())

	d := newFailingFS(t)
	d.scarce.Store(true)
	c, said := b.onDisk("little", d)
	r := b.runOn(countWords(in, to), c, d)
	r.until("suspended", func() bool { return r.app.State() == streams.StateSuspended })
	said.mu.Lock()
	require.ErrorContains(t, said.suspended[0], "a restore would take the last room")
	require.EqualValues(t, 1<<20, said.suspended[0].Free)
	said.mu.Unlock()
	d.scarce.Store(false)
	l.more(10)
	r.until("all counts", func() bool { return l.exact(b.counts(to)) == nil })
	require.NoError(t, r.end())
}

// A disk that fails for another reason ends the application, with an error that says where and what to do.
func TestAppDiskThatFails(t *testing.T) {
	notShort(t)
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	for no, remedy := range map[syscall.Errno]string{syscall.EIO: "replace it", syscall.EROFS: "mount it for writing"} {
		b := embeddedBed(t)
		in, to := b.topic("in", 1), b.topic("out", 1)
		d := newFailingFS(t)
		c, said := b.onDisk("fails", d)
		c.CloseTimeout = time.Second
		r := b.runOn(countWords(in, to), c, d, func(s *shell.Config) { s.DiskPatience = 300 * time.Millisecond })
		l := &wordLoad{b: b, topic: in, parts: 1}
		r.ready()
		d.fail(no)
		for r.app.State() == streams.StateRunning {
			l.more(100)
		}
		began := time.Now()
		err := r.fails()
		require.Less(t, time.Since(began), 8*time.Second, "writes that wait for such a disk hold up no end")
		var se *streams.StoreError
		require.ErrorAs(t, err, &se)
		require.Equal(t, filepath.Join(c.StateDir, b.name("fails")), se.Dir)
		require.ErrorIs(t, err, no)
		require.ErrorContains(t, se, remedy)
		require.ErrorContains(t, se, se.Dir)
		suspended, _ := said.times()
		require.Zero(t, suspended)
	}
}

// A user's function that has no room for its own files fails its record, as with any error.
func TestAppUserFunctionWithoutRoom(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	c, said := b.onDisk("own", newFailingFS(t))
	builder := streams.NewBuilder()
	builder.Stream(in, serde.String, serde.String).
		TryMapValues("write", func(context.Context, streams.Record[string, string]) (string, error) { return "", syscall.ENOSPC }).
		GroupByKey().Count("counts").ToStream().To(to)
	r := b.run(builder, c)
	b.values(in, 0, "v")
	var re *streams.RecordError
	require.ErrorAs(t, r.fails(), &re)
	require.ErrorIs(t, re, syscall.ENOSPC)
	suspended, _ := said.times()
	require.Zero(t, suspended)
}

// cpu is the processor time that this process has used.
func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
