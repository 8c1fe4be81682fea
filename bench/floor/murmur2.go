package main

import "encoding/binary"

// murmur2 is the hash by which Kafka's own clients choose a key's partition.
func murmur2(key []byte) uint32 {
	const m = 0x5bd1e995
	h := 0x9747b28c ^ uint32(len(key))
	b := key
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		h = h*m ^ (k^k>>24)*m
	}
	if len(b) > 0 {
		for i := len(b) - 1; i >= 0; i-- {
			h ^= uint32(b[i]) << (8 * i)
		}
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
