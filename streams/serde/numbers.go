package serde

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Int32 is four bytes, big endian, as Kafka's IntegerSerializer writes them.
var Int32 Serde[int32] = int32Serde{}

// Int64 is eight bytes, big endian, as Kafka's LongSerializer writes them.
var Int64 Serde[int64] = int64Serde{}

// Float64 is the eight bytes of IEEE 754, big endian, as Kafka's DoubleSerializer writes them.
var Float64 Serde[float64] = float64Serde{}

type int32Serde struct{}

func (int32Serde) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

func (int32Serde) Decode(src []byte) (int32, error) {
	if len(src) != 4 {
		return 0, lengthError("int32", 4, len(src))
	}
	return int32(binary.BigEndian.Uint32(src)), nil
}

func (int32Serde) Canonical() bool { return true }

type int64Serde struct{}

func (int64Serde) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

func (int64Serde) Decode(src []byte) (int64, error) {
	if len(src) != 8 {
		return 0, lengthError("int64", 8, len(src))
	}
	return int64(binary.BigEndian.Uint64(src)), nil
}

func (int64Serde) Canonical() bool { return true }

type float64Serde struct{}

func (float64Serde) Append(dst []byte, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

func (float64Serde) Decode(src []byte) (float64, error) {
	if len(src) != 8 {
		return 0, lengthError("float64", 8, len(src))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(src)), nil
}

func (float64Serde) Canonical() bool { return true }

func lengthError(typ string, want, got int) error {
	return fmt.Errorf("serde: %s takes %d bytes, there are %d", typ, want, got)
}
