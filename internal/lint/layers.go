package lint

import (
	"slices"
	"strings"
)

// Module is the import path of the repository; packages are named relative to it.
const Module = "github.com/understudy-streams/understudy"

// A layer may import its own packages and those of lower layers.
type layer int

const (
	storage  layer = iota // statestore
	inside                // task, assignor, retry
	internal              // internal/...
	public                // streams
	programs              // examples, cmd
)

func (l layer) String() string {
	return [...]string{"statestore", "task, assignor, retry", "internal", "streams", "examples, cmd"}[l]
}

// place says what a package is.
type place struct {
	pattern string // relative to Module; "/..." at the end takes in what is below
	layer   layer
	core    bool // pure: see core.go
	pending bool // not written yet
}

// layers is the whole tree. The first pattern that matches counts.
var layers = []place{
	{pattern: "statestore", layer: storage, core: true},
	{pattern: "statestore/...", layer: storage},
	{pattern: "internal/fail", layer: storage}, // the stores have kill points too

	{pattern: "task", layer: inside, core: true},
	{pattern: "assignor", layer: inside, core: true},
	{pattern: "retry", layer: inside, core: true},

	{pattern: "internal/kcode", layer: internal, core: true},
	{pattern: "internal/engine", layer: internal, core: true},
	{pattern: "internal/pattern", layer: internal, core: true},
	{pattern: "internal/group", layer: internal, core: true},
	{pattern: "internal/consume", layer: internal, core: true},
	{pattern: "internal/group/carrier", layer: internal},
	{pattern: "internal/modelbroker", layer: internal, core: true},
	{pattern: "internal/sim", layer: internal, core: true},
	{pattern: "internal/virtual", layer: internal, core: true},
	{pattern: "internal/kafka", layer: internal},
	{pattern: "internal/broker", layer: internal},
	{pattern: "internal/realkafka", layer: internal},
	{pattern: "internal/badnet", layer: internal},
	{pattern: "internal/outside", layer: internal},
	{pattern: "internal/shell", layer: internal},
	{pattern: "internal/lint", layer: internal},

	{pattern: "streams/...", layer: public},
	{pattern: "cmd/...", layer: programs},
	{pattern: "examples/...", layer: programs},
}

// sideways are the imports between different packages of the layer `inside`; elsewhere neighbours are free to import each other.
var sideways = map[string][]string{
	"assignor": {"task"},
	"task":     {"retry"}, // a task carries the policy out; it is a leaf
}

func (p place) matches(name string) bool {
	if below, ok := strings.CutSuffix(p.pattern, "/..."); ok {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	return name == p.pattern
}

// locate returns what the package is; name is relative to Module.
func locate(places []place, name string) (place, bool) {
	i := slices.IndexFunc(places, func(p place) bool { return p.matches(name) })
	if i < 0 {
		return place{}, false
	}
	return places[i], true
}

// relative returns the package's name within the module, and false for a package of somebody else.
func relative(importPath string) (string, bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}
