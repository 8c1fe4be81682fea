package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	whyPure   = "a core decides and does nothing else; with I/O in it the simulation cannot run it on one goroutine, and tests need a network or a disk"
	whyReplay = "a core takes time and randomness as arguments (now time.Time, a seeded *rand.Rand), or a simulated run does not replay bit for bit"
	whyAlone  = "a core is owned by one goroutine at a time; concurrency is the shell's business, and in a core it would make a replay depend on the scheduler"
	whySilent = "a core tells a Listener or returns an action; whether and how that is logged is the shell's decision"
)

// banned are imports that no core may reach, by way of our own packages or of somebody else's. What stands beneath the standard
// library is its own affair.
var banned = []struct{ path, why string }{
	{sarama, whyPure},
	{zap, whySilent},
	{pebble, whyPure},
	{Module + "/internal/fail", whyPure},
	{"os", whyPure},
	{"net", whyPure},
	{"syscall", whyPure},
	{"log", whySilent},
	{"sync", whyAlone},
	{"math/rand", whyReplay},
	{"crypto/rand", whyReplay},
	{"hash/maphash", whyReplay},
}

// ban returns the reason why a core may not import the package, or "".
func ban(importPath string) string {
	if importPath == "math/rand/v2" {
		return "" // its global functions are another rule's business (calls.go)
	}
	for _, b := range banned {
		if within(importPath, b.path) {
			return b.why
		}
	}
	return ""
}

// checkCores holds every core to the rules of a core.
func (t *Tree) checkCores(sources []source) []Finding {
	packages := map[string]*Package{}
	for _, p := range t.Packages {
		packages[p.ImportPath] = p
	}
	var found []Finding
	for _, s := range sources {
		p, known := locate(t.places, s.pkg)
		if !known || !p.core {
			continue
		}
		found = append(found, t.checkImports(s, packages)...)
		found = append(found, s.checkSyntax()...)
	}
	return found
}

// checkImports reports banned imports of the file, and those that it reaches through others.
func (t *Tree) checkImports(s source, packages map[string]*Package) []Finding {
	var found []Finding
	for _, spec := range s.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has seen to it that it is a string
		}
		if why := ban(imported); why != "" {
			found = append(found, Finding{s.at(spec), "core import", "imports " + imported, why})
			continue
		}
		for target, chain := range t.reach(packages, imported) {
			found = append(found, Finding{s.at(spec), "core import", fmt.Sprintf("reaches %s: %s", target, strings.Join(chain, " -> ")), ban(target)})
		}
	}
	return found
}

// reach returns the banned packages that can be got to from the start, each with a shortest chain of imports. It does not look beneath the
// standard library, nor into other cores, which are checked by themselves.
func (t *Tree) reach(packages map[string]*Package, start string) map[string][]string {
	found := map[string][]string{}
	seen := map[string]bool{start: true}
	for queue := [][]string{{start}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		p := packages[chain[len(chain)-1]]
		if p == nil || p.Standard || t.isCore(p.ImportPath) {
			continue
		}
		for _, next := range p.Imports {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(chain), next)
			if ban(next) != "" {
				found[next] = longer
			} else {
				queue = append(queue, longer)
			}
		}
	}
	return found
}

func (t *Tree) isCore(importPath string) bool {
	name, own := relative(importPath)
	if !own {
		return false
	}
	p, known := locate(t.places, name)
	return known && p.core
}
