//go:build !failpoints

package fail

// Enabled says whether the points are built in.
const Enabled = false

// Point does nothing.
func Point(string) {}
