package serde

import (
	"encoding/hex"
	"fmt"
)

// UUID is the text form of a UUID in lower case, 36 bytes, as Kafka's UUIDSerializer writes it. Capital letters are read too.
var UUID Serde[[16]byte] = uuidSerde[[16]byte]{}

// UUIDAs is [UUID] for a named type, such as that of a UUID package.
func UUIDAs[T ~[16]byte]() Serde[T] { return uuidSerde[T]{} }

type uuidSerde[T ~[16]byte] struct{}

const uuidLen = 36

// uuidDashes says after which byte of the UUID a dash is written.
var uuidDashes = [16]bool{3: true, 5: true, 7: true, 9: true}

func (uuidSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	const digits = "0123456789abcdef"
	for i, b := range v {
		dst = append(dst, digits[b>>4], digits[b&15])
		if uuidDashes[i] {
			dst = append(dst, '-')
		}
	}
	return dst, nil
}

func (uuidSerde[T]) Decode(src []byte) (T, error) {
	var v T
	if len(src) != uuidLen {
		return v, lengthError("uuid text", uuidLen, len(src))
	}
	at := 0
	for i := range v {
		if _, err := hex.Decode(v[i:i+1], src[at:at+2]); err != nil {
			return T{}, fmt.Errorf("serde: uuid text %q: %w", src, err)
		}
		at += 2
		if uuidDashes[i] {
			if src[at] != '-' {
				return T{}, fmt.Errorf("serde: uuid text %q has no dash at byte %d", src, at)
			}
			at++
		}
	}
	return v, nil
}
