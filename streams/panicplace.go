package streams

import (
	"bytes"
	"strings"
)

// panicPlace is where a panic with this stack began, as "file.go:12", empty if that cannot be told: the innermost function of the last panic
// that is not the Go runtime's.
func panicPlace(stack []byte) string {
	i := bytes.LastIndex(stack, []byte("\npanic("))
	if i < 0 {
		return ""
	}
	lines := strings.Split(string(stack[i+1:]), "\n")
	for n := 2; n+1 < len(lines); n += 2 { // a function, and the line below it where it is
		if strings.HasPrefix(lines[n], "runtime.") {
			continue
		}
		place, _, _ := strings.Cut(strings.TrimSpace(lines[n+1]), " ")
		return place
	}
	return ""
}
