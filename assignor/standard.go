package assignor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// The standard formats of consumer groups, ConsumerProtocolSubscription and ConsumerProtocolAssignment, written by hand. Kafka's tools read
// them, and they are never empty: a broker closes the connection over null bytes.
const (
	subscriptionVersion = 3
	assignmentVersion   = 3
)

// Subscription is what a member joins with.
type Subscription struct {
	// Topics are all topics that the member commits offsets for.
	Topics []string
	// Owned are the partitions of the tasks that it runs and keeps.
	Owned []task.TopicPartition
	// Generation is that of the last assignment it applied, -1 if none.
	Generation int32
	Rack       string
	UserData   []byte
}

// Append encodes s behind dst, topics and partitions sorted.
func (s Subscription) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, subscriptionVersion)
	topics := slices.Compact(slices.Sorted(slices.Values(s.Topics)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(topics)))
	for _, t := range topics {
		dst = appendString(dst, t)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.UserData)))
	dst = append(dst, s.UserData...)
	dst = appendPartitions(dst, s.Owned)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Generation))
	if s.Rack == "" {
		return binary.BigEndian.AppendUint16(dst, math.MaxUint16) // null
	}
	return appendString(dst, s.Rack)
}

// DecodeSubscription reads any version of the format; what versions after 3 append is skipped. Fields that an old version lacks are empty,
// Generation -1.
func DecodeSubscription(b []byte) (Subscription, error) {
	s := Subscription{Generation: -1}
	r := reader{buf: b}
	version := r.int16()
	for range r.length(2) {
		s.Topics = append(s.Topics, r.string16())
	}
	s.UserData = r.bytes32()
	if version >= 1 {
		s.Owned = r.partitions()
	}
	if version >= 2 {
		s.Generation = r.int32()
	}
	if version >= 3 {
		s.Rack = r.string16()
	}
	if r.err != nil || version < 0 {
		return Subscription{}, fmt.Errorf("read a subscription of version %d: %w", version, orTruncated(r.err))
	}
	return s, nil
}

// Assignment is what a member is assigned.
type Assignment struct {
	Partitions []task.TopicPartition
	UserData   []byte
}

// Append encodes a behind dst, partitions sorted.
func (a Assignment) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, assignmentVersion)
	dst = appendPartitions(dst, a.Partitions)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(a.UserData)))
	return append(dst, a.UserData...)
}

// DecodeAssignment reads any version of the format. No bytes at all are an empty assignment: that is what a broker sends to a member that the
// leader left out.
func DecodeAssignment(b []byte) (Assignment, error) {
	if len(b) == 0 {
		return Assignment{}, nil
	}
	r := reader{buf: b}
	version := r.int16()
	a := Assignment{Partitions: r.partitions(), UserData: r.bytes32()}
	if r.err != nil || version < 0 {
		return Assignment{}, fmt.Errorf("read an assignment of version %d: %w", version, orTruncated(r.err))
	}
	return a, nil
}

func orTruncated(err error) error {
	if err == nil {
		return errTruncated
	}
	return err
}

func appendString(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendPartitions(dst []byte, in []task.TopicPartition) []byte {
	in = slices.Compact(slices.SortedFunc(slices.Values(in), task.TopicPartition.Compare))
	topics := 0
	for i := range in {
		if i == 0 || in[i].Topic != in[i-1].Topic {
			topics++
		}
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(topics))
	for len(in) > 0 {
		n := 1
		for n < len(in) && in[n].Topic == in[0].Topic {
			n++
		}
		dst = appendString(dst, in[0].Topic)
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
		for _, tp := range in[:n] {
			dst = binary.BigEndian.AppendUint32(dst, uint32(tp.Partition))
		}
		in = in[n:]
	}
	return dst
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// length reads the length of an array whose elements take at least size bytes each; null is none.
func (r *reader) length(size int) int {
	n := int(r.int32())
	if n > len(r.buf)/size {
		r.fail(errTruncated)
		return 0
	}
	return max(0, n)
}

func (r *reader) string16() string {
	if n := int(r.int16()); n > 0 {
		return string(r.take(n))
	}
	return ""
}

func (r *reader) bytes32() []byte {
	if n := int(r.int32()); n > 0 {
		return r.take(n)
	}
	return nil
}

func (r *reader) partitions() (out []task.TopicPartition) {
	for range r.length(6) {
		topic := r.string16()
		for range r.length(4) {
			out = append(out, task.TopicPartition{Topic: topic, Partition: r.int32()})
		}
	}
	return out
}
