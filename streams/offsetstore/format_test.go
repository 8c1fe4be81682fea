package offsetstore

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/streams"
)

func TestFormatKeepsWhateverThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := table{}
		for range rapid.IntRange(0, 5).Draw(t, "groups") {
			rows := map[streams.TopicPartition]row{}
			for range rapid.IntRange(1, 5).Draw(t, "rows") {
				tp := streams.TopicPartition{Topic: name(t), Partition: rapid.Int32Min(0).Draw(t, "partition")}
				rows[tp] = row{rapid.Int64Min(0).Draw(t, "offset"), rapid.Int32Min(none).Draw(t, "generation")}
			}
			in[name(t)] = rows
		}
		out, err := decode(encode(in))
		require.NoError(t, err)
		require.Equal(t, in, out)
	})
}

func name(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "name"))
}

// Lines whose checksum is right and which were not written by encode: somebody has edited the file and mended the head.
func TestFormatRefusesWhatItDoesNotWrite(t *testing.T) {
	for _, body := range []string{
		"\n",
		"\"g\" \"t\" 0 offset 1 generation 1",
		"\"g\" \"t\" 0 offset 1\n",
		"\"g\" \"t\" 0 offset 1 generation 1 more\n",
		"\"g\" \"t\" 99999999999 offset 1 generation 1\n",
		"g t 0 offset 1 generation 1\n",
		"\"g\" \"t\" 0 offset 1 generation 1\n\"g\" \"t\" 0 offset 2 generation 1\n",
		"\"h\" \"t\" 0 offset 1 generation 1\n\"g\" \"t\" 0 offset 1 generation 1\n",
	} {
		_, err := decode([]byte(head([]byte(body)) + body))
		require.Error(t, err, "%q", body)
	}
}

func FuzzFormat(f *testing.F) {
	f.Add(encode(table{"g": {{Topic: "t", Partition: 3}: {7, 1}, {Topic: "u"}: {8, none}}}), false)
	f.Add([]byte("\"g\" \"t\" 0 offset 1 generation 1\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, headed bool) {
		if headed { // a checksum is nothing that a fuzzer finds
			text = append([]byte(head(text)), text...)
		}
		if rows, err := decode(text); err == nil {
			require.Equal(t, string(text), string(encode(rows)))
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add(value(row{5, none}))
	f.Fuzz(func(t *testing.T, v []byte) {
		if r, err := rowOf(v); err == nil {
			require.Equal(t, v, value(r))
		}
	})
}
