package fail

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var call = regexp.MustCompile(`fail\.Point\(([^)]*)\)`)

// Each point of the table is in its file, once, and no other file has one.
func TestTheTableIsTheTree(t *testing.T) {
	var found []Place
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "bench"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		for _, m := range call.FindAllStringSubmatch(string(source), -1) {
			require.Regexp(t, `^"[a-z.]+"$`, m[1], "%s: the name of a point is written out", file)
			found = append(found, Place{strings.Trim(m[1], `"`), filepath.ToSlash(file)})
		}
		return err
	})
	require.NoError(t, err)
	byName := func(a, b Place) int { return strings.Compare(a.Name, b.Name) }
	require.True(t, slices.IsSortedFunc(Points, byName))
	slices.SortFunc(found, byName)
	require.Equal(t, Points, found)
}
