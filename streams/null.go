package streams

import (
	"reflect"
	"unsafe"
)

// nullOf returns the test for a T that means null: a nil slice of bytes or a nil pointer. It is nil for all other types. The value is
// passed by copy, since a pointer to it would put it on the heap.
func nullOf[T any]() func(T) bool {
	t := reflect.TypeFor[T]()
	switch {
	case t.Kind() == reflect.Pointer:
		return func(v T) bool { return *(*unsafe.Pointer)(unsafe.Pointer(&v)) == nil }
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return func(v T) bool { return *(*[]byte)(unsafe.Pointer(&v)) == nil }
	default:
		return nil
	}
}

func isNull[T any](null func(T) bool, v T) bool { return null != nil && null(v) }
