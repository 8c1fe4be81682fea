package difftest_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/understudy-streams/understudy/streams/serde"
)

// kind is one of the four Go types that keys and values have here.
type kind uint8

const (
	kStr kind = iota
	kBytes
	kInt
	kDoc
)

// val is a key or value of the reference: a plain value with an explicit null.
type val struct {
	kind kind
	null bool
	s    string
	n    int64
}

// doc is what is written as JSON.
type doc struct {
	S string
	N int64
}

// nullable says that functions can make a null of the kind: a nil []byte, a nil pointer.
func (k kind) nullable() bool { return k == kBytes || k == kDoc }

// arg is what a function sees of a value: the zero value for a null.
func (v val) arg() val {
	if v.null && !v.kind.nullable() {
		return val{kind: v.kind}
	}
	return v
}

func null(k kind) val { return val{kind: k, null: true} }

func (v val) digest() uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v|%q|%d", v.null, v.s, v.n)
	return h.Sum32()
}

// valueOf is the val of a Go value.
func valueOf[T any](v T) val {
	switch v := any(v).(type) {
	case string:
		return val{kind: kStr, s: strings.Clone(v)}
	case []byte:
		return val{kind: kBytes, null: v == nil, s: string(v)}
	case int64:
		return val{kind: kInt, n: v}
	case *doc:
		if v == nil {
			return null(kDoc)
		}
		return val{kind: kDoc, s: v.S, n: v.N}
	}
	panic(fmt.Sprintf("a %T", v))
}

// goValue is the Go value of a val.
func goValue[T any](v val) (out T) {
	switch p := any(&out).(type) {
	case *string:
		*p = v.s
	case *[]byte:
		if !v.null {
			*p = append([]byte{}, v.s...)
		}
	case *int64:
		*p = v.n
	case **doc:
		if !v.null {
			*p = &doc{v.s, v.n}
		}
	}
	return out
}

// serdeID is one of the two serdes of each kind, or none: by type.
type serdeID int8

const (
	byType serdeID = iota - 1
	usual
	other
)

func serdeOf[T any](id serdeID) serde.Serde[T] {
	var zero T
	var s any
	switch any(zero).(type) {
	case string:
		s = [...]serde.Serde[string]{serde.String, quoted{}}[max(id, 0)]
	case []byte:
		s = [...]serde.Serde[[]byte]{serde.Bytes, marked{}}[max(id, 0)]
	case int64:
		s = [...]serde.Serde[int64]{serde.Int64, decimal{}}[max(id, 0)]
	case *doc:
		s = [...]serde.Serde[*doc]{serde.JSON[*doc](), barred{}}[max(id, 0)]
	}
	if id == byType {
		return nil
	}
	return s.(serde.Serde[T])
}

// encode is what the reference thinks that the serdes write; nil is null.
func encode(v val, id serdeID) []byte {
	if v.null {
		return nil
	}
	type form struct {
		kind kind
		id   serdeID
	}
	switch (form{v.kind, max(id, usual)}) {
	case form{kStr, usual}, form{kBytes, usual}:
		return append([]byte{}, v.s...)
	case form{kStr, other}:
		return []byte("'" + v.s)
	case form{kBytes, other}:
		return []byte("x" + v.s)
	case form{kInt, usual}:
		return binary.BigEndian.AppendUint64(nil, uint64(v.n))
	case form{kInt, other}:
		return strconv.AppendInt(nil, v.n, 10)
	case form{kDoc, usual}:
		return fmt.Appendf(nil, `{"S":%q,"N":%d}`, v.s, v.n)
	default:
		return fmt.Appendf(nil, "%s|%d", v.s, v.n)
	}
}

// quoted is another serde of strings. It does not say that it is canonical.
type quoted struct{}

func (quoted) Append(dst []byte, v string) ([]byte, error) {
	return append(append(dst, '\''), v...), nil
}
func (quoted) Decode(src []byte) (string, error) { return string(src[1:]), nil }

// marked is another serde of bytes, a canonical one.
type marked struct{}

func (marked) Append(dst, v []byte) ([]byte, error) { return append(append(dst, 'x'), v...), nil }
func (marked) Decode(src []byte) ([]byte, error)    { return append([]byte{}, src[1:]...), nil }
func (marked) Canonical() bool                      { return true }

type decimal struct{}

func (decimal) Append(dst []byte, v int64) ([]byte, error) { return strconv.AppendInt(dst, v, 10), nil }
func (decimal) Decode(src []byte) (int64, error)           { return strconv.ParseInt(string(src), 10, 64) }

// barred is another serde of documents, a canonical one.
type barred struct{}

func (barred) Append(dst []byte, v *doc) ([]byte, error) {
	return fmt.Appendf(dst, "%s|%d", v.S, v.N), nil
}

func (barred) Decode(src []byte) (*doc, error) {
	s, n, ok := strings.Cut(string(src), "|")
	if !ok {
		return nil, fmt.Errorf("no bar in %q", src)
	}
	i, err := strconv.ParseInt(n, 10, 64)
	return &doc{s, i}, err
}

func (barred) Canonical() bool { return true }

// raw is a value with one of the byte forms that stand for it.
type raw struct {
	val
	b []byte
}

// samples are the values of a kind that records have, in a serde; the last one is the null.
func samples(k kind, id serdeID) []raw {
	var all []raw
	add := func(v val) { all = append(all, raw{v, encode(v, id)}) }
	switch k {
	case kStr, kBytes:
		for _, s := range []string{"a", "b", "", "\xff\x00"} {
			add(val{kind: k, s: s})
		}
	case kInt:
		for _, n := range []int64{1, 0, -1, 1 << 40} {
			add(val{kind: k, n: n})
		}
	case kDoc:
		add(val{kind: k, s: "a", n: 1})
		add(val{kind: k})
		if id <= usual {
			all = append(all, raw{val{kind: k, s: "a", n: 1}, []byte(` { "N":1, "S":"a"}`)}, raw{null(k), []byte("null")})
		}
	}
	return append(all, raw{null(k), nil})
}
