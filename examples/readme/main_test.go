package main

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the repository.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// TestGoInTheReadmeIsThatOfThisFolder holds every block of Go in the README against the files here, which are compiled and tested.
func TestGoInTheReadmeIsThatOfThisFolder(t *testing.T) {
	var files []string
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files = append(files, string(text))
	}
	all := strings.Join(files, "\x00")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	require.Len(t, blocks, 8)
	for _, b := range blocks {
		require.Contains(t, all, b[1], "this block is in no file of examples/readme")
	}
}

// TestReadmesPointAtWhatExists looks up the files and make targets that the documents name.
func TestReadmesPointAtWhatExists(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	target := regexp.MustCompile("(?:`|\n    )(?:[A-Z]+=[^ ]+ )*make ([a-z-]+)")
	for _, name := range []string{
		"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md",
		"examples/wordcount/README.md", "examples/pipe/README.md", "examples/pageviews/README.md",
	} {
		text := read(t, name)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1]))
			require.NoError(t, err, "%s points at %s", name, m[1])
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			require.True(t, targets[m[1]], "%s names make %s", name, m[1])
		}
	}
}

func TestTheProgramRuns(t *testing.T) {
	b := streamstest.Broker(t, map[string]int32{"lines": 2, "counts": 1})
	t.Chdir(t.TempDir()) // its state directory is relative
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, b.Addrs()...) }()
	b.Put("lines", nil, []byte("so so"))
	got := b.Await("counts", 1, 20*time.Second)
	require.Equal(t, "so", string(got[0].Key))
	require.Equal(t, uint64(2), binary.BigEndian.Uint64(got[0].Value))
	stop()
	require.NoError(t, <-ended)
	require.DirExists(t, "state/words")
}

func TestAUserIsIdleAfterAnHour(t *testing.T) {
	d := streamstest.New(t, idleUsers())
	clicks := streamstest.In(d, "clicks", serde.String, serde.String)
	start := time.Unix(1_700_000_000, 0)
	clicks.Pipe("ada", "/", streamstest.At(start))
	clicks.Pipe("grace", "/", streamstest.At(start.Add(30*time.Minute)))
	clicks.Pipe("joan", "/", streamstest.At(start.Add(61*time.Minute)))
	got := streamstest.Out(d, "idle-users", serde.String, serde.String).ReadAll()
	require.Len(t, got, 1)
	require.Equal(t, "ada", got[0].Key)
	require.Equal(t, "idle", got[0].Value)
	require.Len(t, streamstest.Store(d, "seen", serde.String, serde.Int64).All(), 2)
}
