package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Package is what a package imports, without its tests.
type Package struct {
	ImportPath string   `json:"ImportPath"`
	Standard   bool     `json:"Standard"`
	Imports    []string `json:"Imports"`
}

// Load reads the tree whose go.mod is in dir. Packages that do not compile are taken as far as their import clauses can be read.
func Load(dir string) (*Tree, error) {
	t := &Tree{Dir: dir, places: layers}
	var err error
	if t.Files, err = listFiles(dir); err != nil {
		return nil, err
	}
	t.Packages, err = listPackages(dir)
	return t, err
}

// listFiles asks git for tracked files and for those that are neither tracked nor ignored, so that a breach is seen before it is committed.
// The checkout may belong to another user, as it does on many CI machines.
func listFiles(dir string) ([]string, error) {
	out, err := command(dir, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil { // or tracked, and deleted by hand just now
			files = append(files, name)
		}
	}
	return files, nil
}

func listPackages(dir string) ([]*Package, error) {
	out, err := command(dir, "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	if err != nil {
		return nil, err
	}
	var packages []*Package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(Package)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// source is a parsed file that is no test.
type source struct {
	name    string // relative to the tree
	pkg     string // relative to Module
	fileset *token.FileSet
	syntax  *ast.File
}

func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.fileset.Position(n.Pos()).Line)
}

// parse reads all Go files that belong to packages of this module, whatever their build constraints.
func (t *Tree) parse() ([]source, error) {
	var sources []source
	fileset := token.NewFileSet()
	for _, name := range t.goFiles() {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench/") { // a module of its own
			continue
		}
		syntax, err := parser.ParseFile(fileset, filepath.Join(t.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source{name: name, pkg: path.Dir(name), fileset: fileset, syntax: syntax})
	}
	return sources, nil
}

// goFiles are the tree's Go files, tests too, without what stands in testdata.
func (t *Tree) goFiles() []string {
	var names []string
	for _, name := range t.Files {
		if path.Ext(name) == ".go" && !inTestdata(name) {
			names = append(names, name)
		}
	}
	return names
}

func inTestdata(name string) bool { return strings.Contains("/"+name, "/testdata/") }
