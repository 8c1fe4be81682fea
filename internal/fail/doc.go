// Package fail holds the kill points: places between two steps of the shells at which a test lets the process die, as a power cut or the
// kernel's OOM killer would.
//
// Without the build tag failpoints a Point is nothing: an empty function that the compiler inlines. With the tag, a Point that is armed kills
// its process with SIGKILL. Cores have no points, as they carry nothing out. CONTRIBUTING.md says how to add one.
package fail
