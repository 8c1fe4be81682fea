package streams_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

func TestAppCompression(t *testing.T) {
	t.Parallel()
	codecs := map[string]streams.Compression{
		"gzip": streams.CompressGzip, "snappy": streams.CompressSnappy, "lz4": streams.CompressLZ4, "zstd": streams.CompressZstd,
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, b *bed) {
				in, out := b.topic("in", 1), b.topic("out", 1)
				c := b.config("count")
				c.Compression = codec
				b.values(in, 0, strings.Repeat("la ", 500), "di")
				r := b.run(countWords(in, out), c)
				r.until("the counts", func() bool { n := b.counts(out); return n["la"] == 500 && n["di"] == 1 })
				require.NoError(t, r.end())

				c.StateDir = t.TempDir() // what was written compressed is restored
				b.values(in, 0, "la")
				r = b.run(countWords(in, out), c)
				r.until("the count after a restore", func() bool { return b.counts(out)["la"] == 501 })
				require.NoError(t, r.end())
			})
		})
	}
}
