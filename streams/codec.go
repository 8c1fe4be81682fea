package streams

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/understudy-streams/understudy/streams/serde"
)

// decoder reads the keys or values of one topic or store for one task.
type decoder[T any] struct {
	serde serde.Serde[T]
	null  func(T) bool
	text  *carver // where T is string, and a value is the bytes as they are
}

// newDecoder makes the decoder of a task. Strings get a chunk of their own to be carved from.
func newDecoder[T any](s serde.Serde[T], topic string, isKey bool) decoder[T] {
	s = serde.For(s, topic, isKey)
	d := decoder[T]{serde: s, null: nullOf[T]()}
	if isString(s) {
		d.text = &carver{}
	}
	return d
}

// decode returns the value of src, and whether it is one that means null, such as the JSON text "null" for a pointer.
func (d *decoder[T]) decode(src []byte) (v T, null bool, err error) {
	if d.text != nil {
		s := d.text.carve(src)
		return *(*T)(unsafe.Pointer(&s)), false, nil
	}
	v, err = d.serde.Decode(src)
	return v, isNull(d.null, v), err
}

// encoder writes the keys or values of one topic or store for one task.
type encoder[T any] struct {
	serde  serde.Serde[T]
	nuller serde.Nuller[T]
	null   func(T) bool
	raw    bool // the raw bytes of an item can be used as they are
	sound  bool // and need not be checked by decoding them
	text   bool // T is string, and its bytes are what is written
}

// newEncoder makes an encoder for a topic. from is the serde that raw bytes of the stream are in, nil if there are none; stored says that
// they come from a store.
func newEncoder[T any](s, from serde.Serde[T], stored bool, topic string, isKey bool) encoder[T] {
	e := encoder[T]{raw: reusable(s, from), sound: stored || isString(s) || isBytes(s), null: nullOf[T]()}
	e.serde = serde.For(s, topic, isKey)
	e.nuller, _ = e.serde.(serde.Nuller[T])
	e.text = isString(e.serde)
	return e
}

// needs is bit unless the raw bytes will do. They are decoded all the same where they may be wrong, so that a record that cannot be read
// fails where it is read first, and not at somebody else's.
func (e *encoder[T]) needs(bit need) need {
	if e.raw && e.sound {
		return 0
	}
	return bit
}

// append appends v to dst and returns its length, -1 for null. What is present is not nil, even if it is empty and dst is nil.
func (e *encoder[T]) append(dst []byte, v *T, raw []byte, null bool) ([]byte, int, error) {
	switch {
	case null:
		return dst, -1, nil
	case e.raw && raw != nil:
		return present(append(dst, raw...)), len(raw), nil
	case e.text:
		s := *(*string)(unsafe.Pointer(v))
		return present(append(dst, s...)), len(s), nil
	case isNull(e.null, *v), e.nuller != nil && e.nuller.Null(*v):
		return dst, -1, nil
	}
	out, err := e.serde.Append(dst, *v)
	if err != nil {
		return dst, -1, fmt.Errorf("%v: %w", reflect.TypeFor[T](), err)
	}
	return present(out), len(out) - len(dst), nil
}

func present(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// hiddenNull is what must be decoded to know which values are null: those of a serde that reads some bytes as one. A canonical serde does
// not, since it writes null as nothing.
func hiddenNull[T any](s serde.Serde[T]) need {
	if s == nil || nullOf[T]() == nil || serde.IsCanonical(s) {
		return 0
	}
	return needValue
}

// reusable reports whether bytes written by from are what s would write.
func reusable[T any](s, from serde.Serde[T]) bool {
	if from == nil || !same(s, from) || !serde.IsCanonical(s) {
		return false
	}
	_, bound := s.(serde.TopicBound[T])
	return !bound
}

// same reports whether two serdes are one. Values that cannot be compared are never the same.
func same(a, b any) bool {
	t := reflect.TypeOf(a)
	return t != nil && t == reflect.TypeOf(b) && t.Comparable() && reflect.ValueOf(a).Comparable() && a == b
}

func isString(s any) bool { return s == any(serde.String) }
func isBytes(s any) bool  { return s == any(serde.Bytes) }

// storeDecoder is newDecoder for rows. They are overwritten by the next write, so a value that is a view of them is cloned.
func storeDecoder[T any](s serde.Serde[T], topic string, isKey bool) decoder[T] {
	if isBytes(s) {
		return decoder[T]{serde: any(cloner{}).(serde.Serde[T]), null: nullOf[T]()}
	}
	return newDecoder(s, topic, isKey)
}

// carver decodes as serde.String does, for the task that owns it: strings are cut from chunks that the garbage collector frees when the last string of
// them is gone. That is one allocation for some hundred strings, and one that needs no zeroing. A chunk's bytes are written once.
type carver struct{ chunk strings.Builder }

const (
	chunkBytes = 8 << 10
	carveBytes = chunkBytes / 16 // longer strings are allocated by themselves, so that they do not keep a chunk alive
)

func (c *carver) carve(src []byte) string {
	if len(src) == 0 {
		return ""
	}
	if len(src) > carveBytes {
		return string(src)
	}
	n := c.chunk.Len()
	if len(src) > c.chunk.Cap()-n {
		c.chunk.Reset()
		c.chunk.Grow(chunkBytes)
		n = 0
	}
	c.chunk.Write(src)
	return c.chunk.String()[n:]
}

type cloner struct{}

func (cloner) Append(dst, v []byte) ([]byte, error) { return append(dst, v...), nil }

func (cloner) Decode(src []byte) ([]byte, error) {
	if v := bytes.Clone(src); v != nil {
		return v, nil
	}
	return []byte{}, nil
}
