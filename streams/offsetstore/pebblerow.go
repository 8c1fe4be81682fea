package offsetstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/streams"
)

// A row's key is the prefix, the names with their lengths, so that no two groups or topics have a key in common, and the partition. Its value
// is a version, the offset and the generation; Pebble has checksums of its own.
const (
	rowVersion = 1
	rowSize    = 1 + 8 + 4
)

func (s *shared) key(group string, tp streams.TopicPartition) []byte {
	k := append([]byte(nil), s.prefix...)
	for _, name := range []string{group, tp.Topic} {
		k = binary.AppendUvarint(k, uint64(len(name)))
		k = append(k, name...)
	}
	return binary.BigEndian.AppendUint32(k, uint32(tp.Partition))
}

func value(r row) []byte {
	v := binary.BigEndian.AppendUint64([]byte{rowVersion}, uint64(r.offset))
	return binary.BigEndian.AppendUint32(v, uint32(r.generation))
}

func rowOf(v []byte) (row, error) {
	if len(v) != rowSize || v[0] != rowVersion {
		return row{}, fmt.Errorf("the value %x is none that this program writes: a newer one has been here, or the prefix is somebody else's", v)
	}
	return row{offset: int64(binary.BigEndian.Uint64(v[1:])), generation: int32(binary.BigEndian.Uint32(v[9:]))}, nil
}

// row reads what is stored under a key.
func (s *shared) row(key []byte) (r row, stored bool, err error) {
	v, closer, err := s.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return row{}, false, nil
	case err != nil:
		return row{}, false, err
	}
	r, err = rowOf(v)
	return r, true, errors.Join(err, closer.Close())
}
