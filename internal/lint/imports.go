package lint

import (
	"fmt"
	"slices"
	"strings"
)

const (
	sarama = "github.com/IBM/sarama"
	zap    = "go.uber.org/zap"
	pebble = "github.com/cockroachdb/pebble"

	whyLayers  = "each package has a layer, and each rule something to guard; say in internal/lint/layers.go what it is"
	whyOneWay  = "imports point one way (examples, cmd -> streams -> internal -> task, assignor, retry -> statestore), so that what decides can be read and tested without what carries out"
	whyOneEdge = "the client library stays behind internal/kafka, which overrides its dangerous defaults in one place and keeps it replaceable"
)

// within says whether the import path is the module's or below it, whatever its major version.
func within(importPath, module string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// checkLayers reports packages that layers.go does not know, and lines of it that know no package.
func (t *Tree) checkLayers(sources []source) []Finding {
	var found []Finding
	used := make([]bool, len(t.places))
	for _, s := range sources {
		i := slices.IndexFunc(t.places, func(p place) bool { return p.matches(s.pkg) })
		if i < 0 {
			found = append(found, Finding{s.pkg, "layers", "a package of no layer", whyLayers})
			continue
		}
		used[i] = true
	}
	for i, p := range t.places {
		switch {
		case !used[i] && !p.pending:
			found = append(found, Finding{p.pattern, "layers", "no package is called so any more", whyLayers})
		case used[i] && p.pending:
			found = append(found, Finding{p.pattern, "layers", "exists now: take `pending` off its line", whyLayers})
		}
	}
	return found
}

// checkDirections reports imports that point upwards.
func (t *Tree) checkDirections() []Finding {
	var found []Finding
	for _, p := range t.Packages {
		from, own := relative(p.ImportPath)
		if !own {
			continue
		}
		here, known := locate(t.places, from)
		if !known {
			continue // checkLayers says so
		}
		for _, imported := range p.Imports {
			to, own := relative(imported)
			if !own {
				continue
			}
			if there, known := locate(t.places, to); known && !mayImport(from, to, here, there) {
				what := fmt.Sprintf("imports %s: %s -> %s", to, here.layer, there.layer)
				found = append(found, Finding{from, "direction", what, whyOneWay})
			}
		}
	}
	return found
}

func mayImport(from, to string, here, there place) bool {
	if here.layer == inside && there.layer == inside {
		return slices.Contains(sideways[from], to)
	}
	return there.layer <= here.layer
}

// checkClient reports imports of sarama outside internal/kafka.
func (t *Tree) checkClient() []Finding {
	var found []Finding
	for _, p := range t.Packages {
		name, own := relative(p.ImportPath)
		if !own || name == "internal/kafka" {
			continue
		}
		for _, imported := range p.Imports {
			if within(imported, sarama) {
				found = append(found, Finding{name, "sarama", "imports " + imported, whyOneEdge})
			}
		}
	}
	return found
}
