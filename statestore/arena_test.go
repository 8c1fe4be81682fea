package statestore

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSizeClasses(t *testing.T) {
	last := int32(0)
	for n := 1; n < 1<<20; n++ {
		c := classOf(n)
		require.GreaterOrEqual(t, classBytes(c), n)
		if c != last {
			require.Equal(t, last+1, c, "classes have no gaps: %d bytes", n)
			require.Less(t, classBytes(last), n)
			last = c
		}
		if n > 128 {
			require.LessOrEqual(t, classBytes(c), n+n/4+1, "a block wastes at most a fifth of itself")
		}
	}
	require.Less(t, int(classOf(1<<31-1)), classes)
	require.Equal(t, 1<<31, classBytes(classOf(1<<31-1)))
}

// Random spans hold what they were given, whatever is set and freed beside them.
func TestArenaModel(t *testing.T) {
	sizes := []int{0, 1, 15, 16, 17, 32, 33, 100, 128, 129, 511, 513, 3000, 4097, 5000, 70_000, 600_000}
	rapid.Check(t, func(t *rapid.T) {
		var a arena
		spans := make([]span, 12)
		model := make([][]byte, len(spans))
		fill := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i := rapid.IntRange(0, len(spans)-1).Draw(t, "span")
				fill++
				model[i] = bytes.Repeat([]byte{fill}, rapid.SampledFrom(sizes).Draw(t, "size"))
				a.set(&spans[i], model[i])
			},
			"set to a part of itself or another": func(t *rapid.T) {
				i := rapid.IntRange(0, len(spans)-1).Draw(t, "span")
				j := rapid.IntRange(0, len(spans)-1).Draw(t, "from")
				n := rapid.IntRange(0, len(model[j])).Draw(t, "skip")
				b := a.bytes(&spans[j])[n:]
				model[i] = append([]byte{}, model[j][n:]...)
				a.set(&spans[i], b)
			},
			"free": func(t *rapid.T) {
				i := rapid.IntRange(0, len(spans)-1).Draw(t, "span")
				a.free(&spans[i])
				model[i] = nil
			},
			"": func(t *rapid.T) {
				for i := range spans {
					require.True(t, bytes.Equal(model[i], a.bytes(&spans[i])), "span %d", i)
				}
			},
		})
		for i := range spans {
			a.free(&spans[i])
		}
		require.LessOrEqual(t, a.spare, maxSpareBytes)
		inUse := 0
		for _, c := range a.chunks {
			inUse += len(c.data)
			require.Zero(t, c.used)
		}
		require.Equal(t, a.held, inUse)
	})
}

// What one size class no longer needs, another can have.
func TestArenaReusesChunks(t *testing.T) {
	var a arena
	spans := make([]span, 1000)
	for i := range spans {
		a.set(&spans[i], make([]byte, 100))
	}
	held := a.held
	for i := range spans {
		a.free(&spans[i])
	}
	for i := range spans {
		a.set(&spans[i], make([]byte, 90))
	}
	require.Equal(t, held, a.held)
}

func TestArenaGivesLargeBlocksBack(t *testing.T) {
	var a arena
	spans := make([]span, 10)
	for i := range spans {
		a.set(&spans[i], make([]byte, 500_000))
	}
	require.Greater(t, a.held, 5_000_000-1)
	for i := range spans {
		a.free(&spans[i])
	}
	require.LessOrEqual(t, a.held, maxSpareBytes)
	a.set(&spans[0], make([]byte, 700_000))
	require.LessOrEqual(t, len(a.chunks), 10, "numbers of chunks are used again")
}
