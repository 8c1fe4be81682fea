package streams

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/streams/serde"
)

// Strings that were carved stay what they were, whatever is carved after them and whatever becomes of the bytes they came from.
func TestCarvedStringsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c carver
		var got, want []string
		for range rapid.IntRange(1, 100).Draw(t, "strings") {
			src := []byte(rapid.StringN(0, -1, 2*carveBytes).Draw(t, "string"))
			want = append(want, string(src))
			got = append(got, c.carve(src))
			for i := range src {
				src[i] = 0xff
			}
		}
		require.Equal(t, want, got)
	})
}

func TestCarvingIsOneAllocationForManyStrings(t *testing.T) {
	var c carver
	src := []byte("a word of text")
	require.Less(t, testing.AllocsPerRun(1000, func() { _ = c.carve(src) }), 1.0)
}

func TestClonedBytesAreNeverNil(t *testing.T) {
	v, err := cloner{}.Decode(nil)
	require.NoError(t, err)
	require.NotNil(t, v)
	b, err := cloner{}.Append([]byte("x"), []byte("y"))
	require.NoError(t, err)
	require.Equal(t, "xy", string(b))
}

type uncomparable struct {
	serde.Serde[string]
	_ []int
}

type topicBound struct{ serde.Serde[string] }

func (topicBound) Canonical() bool                             { return true }
func (b topicBound) ForTopic(string, bool) serde.Serde[string] { return b }

func TestRawBytesAreReusedOnlyIfTheyWouldBeTheSame(t *testing.T) {
	for _, c := range []struct {
		name    string
		s, from serde.Serde[string]
		want    bool
	}{
		{"the same canonical serde", serde.String, serde.String, true},
		{"no bytes", serde.String, nil, false},
		{"another serde", serde.String, topicBound{}, false},
		{"one that is not canonical", serde.JSON[string](), serde.JSON[string](), false},
		{"one that cannot be compared", uncomparable{}, uncomparable{}, false},
		{"one that depends on the topic", topicBound{}, topicBound{}, false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, reusable(c.s, c.from)) })
	}
}

func TestNullByType(t *testing.T) {
	type blob []byte
	require.True(t, nullOf[[]byte]()(nil))
	require.False(t, nullOf[[]byte]()([]byte{}))
	require.True(t, nullOf[blob]()(nil))
	require.True(t, nullOf[*int]()(nil))
	require.False(t, nullOf[*int]()(new(int)))
	require.Nil(t, nullOf[string]())
	require.Nil(t, nullOf[[]string]())
	require.Nil(t, nullOf[any]())
}

func named(string) bool { return true }

type receiver struct{}

func (*receiver) method(string) bool { return true }

func TestFunctionNames(t *testing.T) {
	require.Equal(t, "streams.named", functionName(named))
	require.Equal(t, "streams.receiver.method", functionName((&receiver{}).method))
	require.Equal(t, "streams.isNil", functionName(isNil))
	require.Equal(t, "streams.nullOf", functionName(nullOf[int]))
	require.Empty(t, functionName(func() {}), "literals are numbered by the compiler: their names do not survive a change")
	require.Empty(t, functionName(nil))
	require.Empty(t, functionName((func())(nil)))
}
