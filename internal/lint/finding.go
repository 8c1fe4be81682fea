package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one breach of a rule.
type Finding struct {
	Where string // file, file:line or package, relative to the tree
	Rule  string // the rule's short name
	What  string
	Why   string // the reason for the rule, and mostly the way out
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s (%s)\n\twhy: %s", f.Where, f.What, f.Rule, f.Why)
}

// Tree is the source to check.
type Tree struct {
	Dir      string     // its top, where go.mod is
	Files    []string   // what is or will be under version control, relative to Dir
	Packages []*Package // what `go list -deps` says
	places   []place
}

// Check runs all rules and returns what they find, in a stable order.
func (t *Tree) Check() ([]Finding, error) {
	sources, err := t.parse()
	if err != nil {
		return nil, err
	}
	var found []Finding
	found = append(found, t.checkLayers(sources)...)
	found = append(found, t.checkDirections()...)
	found = append(found, t.checkClient()...)
	found = append(found, t.checkCores(sources)...)
	files, err := t.checkFiles()
	if err != nil {
		return nil, err
	}
	found = append(found, files...)
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.What, b.What))
	})
	return slices.Compact(found), nil
}
