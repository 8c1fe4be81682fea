package lint

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxLines = 500

	whyNames = "a file name answers \"where is X?\"; such a name answers nothing and gathers what has no place. Name the file for the idea it holds"
	whySize  = "a file holds one idea that a newcomer can find; split it by idea"
	whyPaths = "the tree has to work on any machine"
)

// vague are words that say nothing about what a file holds.
var vague = []string{"util", "utils", "helper", "helpers", "common", "impl", "manager", "types", "misc"}

// machinePaths are folders that exist on one machine only. They are put together here so that this file does not hold them.
var machinePaths = []string{"/" + "work" + "/", "/" + "root" + "/"}

// exempt may hold what the rules forbid: the rules' own fixtures.
func exempt(name string) bool { return strings.HasPrefix(name, "internal/lint/testdata/") }

// checkFiles looks at names, sizes and contents.
func (t *Tree) checkFiles() ([]Finding, error) {
	var found []Finding
	for _, name := range t.Files {
		if exempt(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(t.Dir, name))
		if err != nil {
			return nil, err
		}
		if path.Ext(name) == ".go" && !inTestdata(name) {
			found = append(found, checkName(name)...)
			found = append(found, checkSize(name, text)...)
		}
		found = append(found, checkPaths(name, text)...)
	}
	return found, nil
}

func checkName(name string) []Finding {
	var found []Finding
	for part := range strings.SplitSeq(strings.TrimSuffix(name, ".go"), "/") {
		for word := range strings.SplitSeq(part, "_") {
			if slices.Contains(vague, word) {
				found = append(found, Finding{name, "name", fmt.Sprintf("is called %q", word), whyNames})
			}
		}
	}
	return found
}

func checkSize(name string, text []byte) []Finding {
	lines := bytes.Count(text, []byte("\n"))
	if lines <= maxLines || strings.HasSuffix(name, "_test.go") {
		return nil
	}
	return []Finding{{name, "size", fmt.Sprintf("has %d lines, more than %d", lines, maxLines), whySize}}
}

func checkPaths(name string, text []byte) []Finding {
	if bytes.IndexByte(text, 0) >= 0 { // binary
		return nil
	}
	var found []Finding
	number := 0
	for line := range bytes.Lines(text) {
		number++
		for _, p := range machinePaths {
			if bytes.Contains(line, []byte(p)) {
				found = append(found, Finding{fmt.Sprintf("%s:%d", name, number), "machine path", "names " + p, whyPaths})
			}
		}
	}
	return found
}
