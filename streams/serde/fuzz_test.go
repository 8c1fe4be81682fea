package serde_test

import (
	"bytes"
	"testing"

	"github.com/understudy-streams/understudy/streams/serde"
)

// FuzzDecode holds, for every serde and any bytes: Decode returns or fails, it never panics; what it accepts can be written and read
// again; and a canonical serde gives back the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte("12AB0000-0000-0000-0000-0000000000ff"))
	f.Add([]byte(`{"id":"a","cent":3,"tags":{"x":1}}`))
	f.Add([]byte("null"))
	f.Add([]byte("caf\xe9"))
	f.Fuzz(func(t *testing.T, src []byte) {
		decodeAny(t, serde.Bytes, src)
		decodeAny(t, serde.String, src)
		decodeAny(t, serde.Int32, src)
		decodeAny(t, serde.Int64, src)
		decodeAny(t, serde.Float64, src)
		decodeAny(t, serde.UUID, src)
		decodeAny(t, serde.JSON[order](), src)
		decodeAny(t, serde.JSON[*order](), src)
	})
}

func decodeAny[T any](t *testing.T, s serde.Serde[T], src []byte) {
	v, err := s.Decode(src)
	if err != nil {
		return
	}
	once, err := s.Append(nil, v)
	if err != nil {
		t.Fatalf("%T accepts %q and cannot write it: %v", v, src, err)
	}
	if serde.IsCanonical(s) && !bytes.Equal(once, src) {
		t.Fatalf("%T: %q became %q", v, src, once)
	}
	back, err := s.Decode(once)
	if err != nil {
		t.Fatalf("%T cannot read %q, its own writing: %v", v, once, err)
	}
	twice, err := s.Append(nil, back)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%T: %q became %q: %v", v, once, twice, err)
	}
}
