// Package serde turns keys and values into bytes and back.
//
// A [Serde] appends to a buffer that the caller owns, so that encoding a record allocates nothing, and decodes from bytes it does not keep.
// The serdes here write the bytes that Kafka's own serializers write: [String] is UTF-8 without a length, [Int32], [Int64] and [Float64] are
// big endian, [UUID] is text. A Java consumer reads what they write, and the other way round.
//
// Serdes hold no state and are safe for concurrent use; one that holds state must be made so by its author, since every task of a process
// uses the same value.
package serde

// Serde is a pair of functions between a Go type and its bytes.
type Serde[T any] interface {
	// Append appends the bytes of v to dst and returns the longer slice. On an error it returns dst as it was.
	Append(dst []byte, v T) ([]byte, error)
	// Decode returns the value that src stands for. It is called for bytes that are present only, never for a null. It must not keep
	// src, which is overwritten later; only the values of [Bytes] are a view of it.
	Decode(src []byte) (T, error)
}

// Canonical is implemented by a Serde that has exactly one form for each value: whatever Decode accepts, Append gives back byte for
// byte. The bytes of a record that only passes through are then copied and not encoded again. Without the method a Serde counts as not
// canonical.
type Canonical interface{ Canonical() bool }

// Nuller is implemented by a Serde with values that mean null: they are written as an absent key or value (a tombstone), not as bytes.
type Nuller[T any] interface{ Null(v T) bool }

// TopicBound is implemented by a Serde whose bytes depend on the topic, such as one with a schema registry behind it. ForTopic is called
// once for each topic and task and returns the Serde to use there.
type TopicBound[T any] interface {
	ForTopic(topic string, isKey bool) Serde[T]
}

// OrderPreserving is implemented by a Serde whose bytes sort as its values do, so that a range of keys may cross any border. [String]
// and [Bytes] are; [Int64] is not, because Java's two's complement puts the negative numbers after the positive ones.
type OrderPreserving interface{ OrderPreserving() bool }

// IsCanonical reports whether s says that it is [Canonical].
func IsCanonical[T any](s Serde[T]) bool {
	c, ok := s.(Canonical)
	return ok && c.Canonical()
}

// IsOrderPreserving reports whether s says that it is [OrderPreserving].
func IsOrderPreserving[T any](s Serde[T]) bool {
	o, ok := s.(OrderPreserving)
	return ok && o.OrderPreserving()
}

// For returns the Serde to use for a topic: s.ForTopic's answer where s is [TopicBound], else s.
func For[T any](s Serde[T], topic string, isKey bool) Serde[T] {
	if b, ok := s.(TopicBound[T]); ok {
		return b.ForTopic(topic, isKey)
	}
	return s
}
