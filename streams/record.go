package streams

import (
	"time"

	"github.com/understudy-streams/understudy/task"
)

// Record is a record as functions that can fail and processors see it.
type Record[K, V any] struct {
	Key   K
	Value V
	// NullKey and NullValue say that there is no key or no value. Key or Value is the zero value then.
	NullKey, NullValue bool
	// Time is the record's timestamp, in UTC with a precision of a millisecond.
	Time time.Time
	// Headers are in the order in which they were written. They are borrowed until the function returns.
	Headers []Header
}

// Header is a record header. A nil Value is a null, an empty one is present and empty.
type Header = task.Header

// KeyValue is a key with its value.
type KeyValue[K, V any] struct {
	Key   K
	Value V
}

// record is the public form of an item.
func record[K, V any](it *item[K, V]) Record[K, V] {
	return Record[K, V]{
		Key: it.key, Value: it.value, NullKey: it.nullKey, NullValue: it.nullValue,
		Time:    timeOf(it.ts),
		Headers: it.headers[:len(it.headers):len(it.headers)], // clipped: what a function appends is its own
	}
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
