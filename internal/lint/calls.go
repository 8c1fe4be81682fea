package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// clock are the names of the standard library that read the clock or start a timer.
var clock = map[string][]string{
	"time":    {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
}

// seeded are the names of math/rand/v2 that do not draw from its global source.
var seeded = []string{"Rand", "New", "Source", "PCG", "NewPCG", "ChaCha8", "NewChaCha8", "Zipf", "NewZipf"}

// checkSyntax reports what a core does in its own code: clock, chance, goroutines, channels.
func (s source) checkSyntax() []Finding {
	var found []Finding
	add := func(n ast.Node, rule, what, why string) {
		found = append(found, Finding{s.at(n), rule, what, why})
	}
	names := s.importNames(func(n ast.Node, path string) {
		add(n, "core import", "imports "+path+" with a dot, which hides what is called from the other rules", whyReplay)
	})
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if what, ok := impureName(n, names); ok {
				add(n, "core replay", what, whyReplay)
			}
		case *ast.GoStmt:
			add(n, "core goroutine", "starts a goroutine", whyAlone)
		case *ast.SelectStmt:
			add(n, "core channel", "selects", whyAlone)
		case *ast.ChanType:
			add(n, "core channel", "has a channel", whyAlone)
		case *ast.SendStmt:
			add(n, "core channel", "sends on a channel", whyAlone)
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				add(n, "core channel", "receives from a channel", whyAlone)
			}
		}
		return true
	})
	return found
}

// importNames maps the names under which the file knows its imports to their paths.
func (s source) importNames(dotted func(ast.Node, string)) map[string]string {
	names := map[string]string{}
	for _, spec := range s.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := strings.TrimSuffix(path, "/v2")
		name = name[strings.LastIndexByte(name, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			dotted(spec, path)
		}
		names[name] = path
	}
	return names
}

// impureName says whether the expression names a function that reads the clock or draws from the global source, called or handed on.
func impureName(n *ast.SelectorExpr, names map[string]string) (string, bool) {
	base, ok := n.X.(*ast.Ident)
	if !ok || base.Obj != nil { // a local variable called like a package
		return "", false
	}
	path := names[base.Name]
	if slices.Contains(clock[path], n.Sel.Name) {
		return fmt.Sprintf("uses %s.%s", path, n.Sel.Name), true
	}
	if path == "math/rand/v2" && !slices.Contains(seeded, n.Sel.Name) {
		return fmt.Sprintf("uses the global source: %s.%s", path, n.Sel.Name), true
	}
	return "", false
}
