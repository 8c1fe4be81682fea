package serde

// Bytes passes bytes through. A nil slice is null, an empty one that is not nil is present and empty: nil returned by a mapper makes a
// tombstone, []byte{} makes an empty value.
//
// Decode returns a view of the record, valid until the function that gets it returns; clone what is to be kept ([bytes.Clone]). It is not to
// be written to, since other steps look at the same bytes; appending to it is safe.
var Bytes Serde[[]byte] = bytesSerde{}

type bytesSerde struct{}

func (bytesSerde) Append(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }

func (bytesSerde) Decode(src []byte) ([]byte, error) {
	if src == nil {
		return []byte{}, nil
	}
	return src[:len(src):len(src)], nil // clipped: appending to it must not run into the neighbour
}

func (bytesSerde) Null(v []byte) bool    { return v == nil }
func (bytesSerde) Canonical() bool       { return true }
func (bytesSerde) OrderPreserving() bool { return true }

// String is the bytes of a string as they are: UTF-8 in, UTF-8 out, and bytes that are no UTF-8 are kept too, so that two different keys
// never become one.
var String Serde[string] = stringSerde{}

type stringSerde struct{}

func (stringSerde) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringSerde) Decode(src []byte) (string, error)           { return string(src), nil }
func (stringSerde) Canonical() bool                             { return true }
func (stringSerde) OrderPreserving() bool                       { return true }
