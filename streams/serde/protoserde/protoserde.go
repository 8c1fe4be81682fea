// Package protoserde has the serde of protocol buffers. It is a package of its own so that a program without protocol buffers does not
// link them.
package protoserde

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/understudy-streams/understudy/streams/serde"
)

// Of returns the serde of a generated message type, for example protoserde.Of[*pb.Order](). Messages are written deterministically: one
// program writes equal messages as equal bytes, which keys need. A nil message is null.
//
// The wire format has room for fields that this program does not know; they are kept.
func Of[M proto.Message]() serde.Serde[M] { return messageSerde[M]{} }

type messageSerde[M proto.Message] struct{}

func (messageSerde[M]) Append(dst []byte, m M) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, fmt.Errorf("protoserde: %T: %w", m, err)
	}
	return b, nil
}

func (messageSerde[M]) Decode(src []byte) (M, error) {
	var zero M
	m := zero.ProtoReflect().Type().New().Interface().(M)
	if err := proto.Unmarshal(src, m); err != nil {
		return zero, fmt.Errorf("protoserde: %d bytes as a %T: %w", len(src), m, err)
	}
	return m, nil
}

func (messageSerde[M]) Null(m M) bool { return any(m) == nil || !m.ProtoReflect().IsValid() }
