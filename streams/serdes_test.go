package streams_test

import (
	"encoding/hex"
	"errors"
)

// hexSerde writes strings as hexadecimal digits: a serde of a user, not canonical.
type hexSerde struct{}

func (hexSerde) Append(dst []byte, v string) ([]byte, error) {
	if v == "unwritable" {
		return dst, errors.New("unwritable")
	}
	return hex.AppendEncode(dst, []byte(v)), nil
}

func (hexSerde) Decode(src []byte) (string, error) {
	b, err := hex.DecodeString(string(src))
	return string(b), err
}

// countingSerde is a canonical serde that counts how often it decodes and encodes.
type countingSerde struct{ n *counts }

type counts struct{ decoded, encoded int }

func (s countingSerde) Append(dst []byte, v string) ([]byte, error) {
	s.n.encoded++
	return append(dst, v...), nil
}

func (s countingSerde) Decode(src []byte) (string, error) {
	s.n.decoded++
	if string(src) == "unreadable" {
		return "", errors.New("unreadable")
	}
	return string(src), nil
}

func (countingSerde) Canonical() bool { return true }
