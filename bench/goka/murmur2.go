package main

import "encoding/binary"

// murmur2 is the hash of Kafka's default partitioner. goka writes a key in a single Write.
type murmur2 struct{ sum uint32 }

func (m *murmur2) Sum32() uint32       { return m.sum & 0x7fffffff }
func (m *murmur2) Sum(b []byte) []byte { return binary.BigEndian.AppendUint32(b, m.Sum32()) }
func (m *murmur2) Reset()              { m.sum = 0 }
func (m *murmur2) Size() int           { return 4 }
func (m *murmur2) BlockSize() int      { return 4 }

func (m *murmur2) Write(key []byte) (int, error) {
	const mix = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(key))
	rest := key
	for ; len(rest) >= 4; rest = rest[4:] {
		k := binary.LittleEndian.Uint32(rest) * mix
		h = h*mix ^ (k^k>>24)*mix
	}
	if len(rest) > 0 {
		for i, c := range rest {
			h ^= uint32(c) << (8 * i)
		}
		h *= mix
	}
	h = (h ^ h>>13) * mix
	m.sum = h ^ h>>15
	return len(key), nil
}
