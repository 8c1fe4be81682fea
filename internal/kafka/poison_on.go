//go:build race

package kafka

// poison makes memory that is used too long show, in builds that look for faults.
func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = 0xdd
	}
}
