package task

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMurmur2IsJavas(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		require.Equal(t, want, murmur2([]byte(key)), key)
		require.Equal(t, (want&0x7fffffff)%7, PartitionFor([]byte(key), 7), key)
	}
}
