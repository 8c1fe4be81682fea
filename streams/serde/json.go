package serde

import (
	"encoding/json/v2"
	"fmt"
	"reflect"
)

// JSON is the JSON text of a T, written deterministically (maps sorted), so that equal keys have equal bytes. A nil pointer is null
// (an absent value, not the text "null"), for a T that is a pointer.
//
// What is no JSON, does not fit T, or has the same member twice is an error that says where.
func JSON[T any]() Serde[T] {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return jsonPointerSerde[T]{}
	}
	return jsonSerde[T]{}
}

type jsonSerde[T any] struct{}

func (jsonSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	w := appender{dst}
	if err := json.MarshalWrite(&w, v, json.Deterministic(true)); err != nil {
		return dst, fmt.Errorf("serde: %T as JSON: %w", v, err)
	}
	return w.b, nil
}

func (jsonSerde[T]) Decode(src []byte) (T, error) {
	var v T
	if err := json.Unmarshal(src, &v); err != nil {
		var zero T
		return zero, fmt.Errorf("serde: %d bytes as JSON of a %T: %w", len(src), v, err)
	}
	return v, nil
}

// jsonPointerSerde is jsonSerde for a pointer type, whose nil is null.
type jsonPointerSerde[T any] struct{ jsonSerde[T] }

func (jsonPointerSerde[T]) Null(v T) bool { return reflect.ValueOf(&v).Elem().IsNil() }

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
