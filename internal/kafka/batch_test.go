package kafka

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/task"
)

var someTP = task.TopicPartition{Topic: "t", Partition: 4}

// encoded makes a batch as a broker stores it, from offset base on.
func encoded(t testing.TB, base int64, codec Codec, records ...task.OutRecord) []byte {
	t.Helper()
	var e encoder
	p := plainBatch(someTP, records...)
	p.Codec = codec
	b, err := e.appendBatch(nil, &p)
	require.NoError(t, err)
	putInt64(b, base)
	return b
}

// sign makes the checksum right again after a change.
func sign(b []byte) []byte {
	putInt32(b[17:], int32(crc32.Checksum(b[21:], castagnoli)))
	return b
}

func decodeSet(set []byte, from int64) (*task.Batch, error) {
	var d decoder
	return d.decode(someTP, bytes.Clone(set), from, false, nil)
}

func TestTheBytesOfABatch(t *testing.T) {
	b := plainBatch(someTP,
		task.OutRecord{Key: []byte("k"), Value: []byte("vv"), Timestamp: 1000, Headers: []task.Header{{Key: "h", Value: []byte{1}}, {Key: "n"}}},
		task.OutRecord{Value: []byte{}, Timestamp: 900},
	)
	b.ProducerID, b.Epoch, b.FirstSequence = 0x0102, 3, 0x0405
	var e encoder
	got, err := e.appendBatch(nil, &b)
	require.NoError(t, err)
	want := "0000000000000000" + "0000004a" + "ffffffff" + "02" + hex.EncodeToString(got[17:21]) + "0000" + "00000001" +
		"00000000000003e8" + "00000000000003e8" + "0000000000000102" + "0003" + "00000405" + "00000002" +
		"20" + "00" + "00" + "00" + "02" + "6b" + "04" + "7676" + "04" + "02" + "68" + "02" + "01" + "02" + "6e" + "01" +
		"0e" + "00" + "c701" + "02" + "01" + "00" + "00" // lengths are zigzag: 7 bytes follow
	require.Equal(t, want, hex.EncodeToString(got))
	require.Equal(t, crc32.Checksum(got[21:], castagnoli), uint32(getInt32(got[17:])))
}

func TestACorruptBatchStopsBehindWhatIsGood(t *testing.T) {
	for _, v := range []struct {
		name   string
		damage func(b []byte) []byte
		want   string
		last   int64 // of the damaged batch, as it is told
	}{
		{name: "checksum", damage: func(b []byte) []byte { b[70] ^= 1; return b }, want: "checksum does not match", last: 14},
		{name: "old format", damage: func(b []byte) []byte { b[16] = 1; return b }, want: "message format 1", last: 14},
		{name: "negative length", damage: func(b []byte) []byte { putInt32(b[8:], -1); return b }, want: "checksum", last: 14},
		{name: "short", damage: func(b []byte) []byte { putInt32(b[8:], 20); return b }, want: "too short", last: 14},
		{name: "negative count", damage: func(b []byte) []byte { putInt32(b[57:], -2); return sign(b) }, want: "-2 records", last: 14},
		{name: "negative delta", damage: func(b []byte) []byte { putInt32(b[23:], -2); return sign(b) }, want: "last offset delta -2", last: 10},
		{name: "too many records", damage: func(b []byte) []byte { putInt32(b[57:], 1<<20); return sign(b) }, want: "1048576 records in", last: 14},
		{name: "one record too many", damage: func(b []byte) []byte { putInt32(b[57:], 6); return sign(b) }, want: "record 5 of 6", last: 14},
		{name: "one too few", damage: func(b []byte) []byte { putInt32(b[57:], 4); return sign(b) }, want: "after the last record", last: 14},
		{name: "delta too small", damage: func(b []byte) []byte { putInt32(b[23:], 2); return sign(b) }, want: "record 3 of 5: offset 13 after 12", last: 12},
		{name: "long record", damage: func(b []byte) []byte { b[61] = 0x7e; return sign(b) }, want: "record 0 of 5", last: 14},
		{name: "unknown codec", damage: func(b []byte) []byte { b[22] = 7; return sign(b) }, want: "codec 7 is unknown", last: 14},
		{name: "not gzip", damage: func(b []byte) []byte { b[22] = 1; return sign(b) }, want: "gzip", last: 14},
		{name: "not snappy", damage: func(b []byte) []byte { b[22] = 2; b[61] = 0xff; return sign(b) }, want: "snappy", last: 14},
		{name: "not lz4", damage: func(b []byte) []byte { b[22] = 3; return sign(b) }, want: "lz4", last: 14},
		{name: "not zstd", damage: func(b []byte) []byte { b[22] = 4; return sign(b) }, want: "zstd", last: 14},
	} {
		t.Run(v.name, func(t *testing.T) {
			good := encoded(t, 7, None, numbered(3)...)
			bad := v.damage(encoded(t, 10, None, numbered(5)...))
			after := encoded(t, 15, None, numbered(1)...)
			b, err := decodeSet(append(append(bytes.Clone(good), bad...), after...), 8)
			require.Equal(t, []int64{8, 9}, offsets(records(b)))
			require.Equal(t, int64(10), b.Next)
			var corrupt *CorruptBatchError
			require.ErrorAs(t, err, &corrupt)
			require.Equal(t, someTP, corrupt.TopicPartition)
			require.Equal(t, int64(10), corrupt.BaseOffset)
			require.Equal(t, v.last, corrupt.LastOffset)
			require.ErrorContains(t, err, v.want)
			require.ErrorContains(t, err, "t-4")
			require.Error(t, corrupt.Unwrap())

			b, err = decodeSet(after, corrupt.LastOffset+1)
			require.NoError(t, err)
			require.Equal(t, []int64{15}, offsets(records(b)))
		})
	}
}

func TestACorruptBatchWithoutSenseLetsTheReaderPassAllTheSame(t *testing.T) {
	b := encoded(t, 10, None, numbered(1)...)
	putInt64(b, -5)
	_, err := decodeSet(b, 3)
	var corrupt *CorruptBatchError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, int64(3), corrupt.BaseOffset)
	require.GreaterOrEqual(t, corrupt.LastOffset, int64(3))

	putInt64(b, math.MaxInt64)
	_, err = decodeSet(b, 3)
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, int64(3), corrupt.BaseOffset)
}

func TestTheEndOfASetMayBeCutOff(t *testing.T) {
	first, second := encoded(t, 0, None, numbered(2)...), encoded(t, 2, None, numbered(2)...)
	set := append(bytes.Clone(first), second...)
	for cut := len(first); cut < len(set); cut++ {
		b, err := decodeSet(set[:cut], 0)
		require.NoError(t, err)
		require.Equal(t, int64(2), b.Next)
		require.Len(t, records(b), 2)
	}
	for _, cut := range []int{1, 11, 12, 60, len(first) - 1} {
		b, err := decodeSet(set[:cut], 0)
		require.ErrorContains(t, err, "incomplete", "nothing whole: without an error the reader would ask for ever")
		require.Empty(t, records(b))
	}
	b, err := decodeSet(nil, 6)
	require.NoError(t, err)
	require.Equal(t, &task.Batch{From: 6, Next: 6}, b)
}

func TestBatchesBelowTheOffsetAreNotLookedAt(t *testing.T) {
	old := encoded(t, 0, None, numbered(2)...)
	old[70] ^= 1 // not even their checksum
	b, err := decodeSet(append(old, encoded(t, 2, None, numbered(2)...)...), 2)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3}, offsets(records(b)))
}

func TestBatchesThatOverlapDeliverNothingTwice(t *testing.T) {
	b, err := decodeSet(append(encoded(t, 3, None, numbered(4)...), encoded(t, 4, None, numbered(5)...)...), 0)
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4, 5, 6, 7, 8}, offsets(records(b)))
	require.Equal(t, int64(9), b.Next)
}

func TestAnEmptyBatchMovesThePosition(t *testing.T) {
	// Compaction keeps a batch without records, for its producer's sequence.
	b := encoded(t, 5, None, numbered(3)...)[:batchHeaderLen]
	putInt32(b[8:], batchHeaderLen-batchOverhead)
	putInt32(b[57:], 0)
	got, err := decodeSet(sign(b), 5)
	require.NoError(t, err)
	require.Empty(t, records(got))
	require.Equal(t, int64(8), got.Next)
}

// of makes a batch of a transaction of a producer; kind 0 is an abort marker, 1 a commit marker, -1 data.
func of(t *testing.T, base, pid int64, kind int) []byte {
	t.Helper()
	r := task.OutRecord{Key: []byte{0, 0, 0, byte(kind)}, Value: make([]byte, 6)}
	b := encoded(t, base, None, r)
	putInt64(b[43:], pid)
	b[22] |= attrTransaction
	if kind >= 0 {
		b[22] |= attrControl
	}
	return sign(b)
}

func TestAbortedTransactionsThatOverlap(t *testing.T) {
	const data, abort, commit = -1, 0, 1
	for _, v := range []struct {
		name    string
		set     [][]byte
		aborted []abortedTxn
		want    []int64
	}{
		{
			name: "one inside the other, listed by their ends",
			set: [][]byte{
				of(t, 0, 1, data), of(t, 1, 2, data), of(t, 2, 3, data), of(t, 3, 2, abort), of(t, 4, 1, data), of(t, 5, 1, abort), of(t, 6, 3, commit),
				of(t, 7, 1, data), of(t, 8, 2, data),
			},
			aborted: []abortedTxn{{pid: 2, first: 1}, {pid: 1, first: 0}},
			want:    []int64{2, 7, 8},
		},
		{
			name:    "the marker between two is gone",
			set:     [][]byte{of(t, 4, 1, data), of(t, 5, 1, abort), of(t, 6, 1, data), of(t, 7, 1, commit)},
			aborted: []abortedTxn{{pid: 1, first: 0}, {pid: 1, first: 4}},
			want:    []int64{6},
		},
		{
			name:    "aborted, committed, aborted",
			set:     [][]byte{of(t, 0, 1, data), of(t, 1, 1, abort), of(t, 2, 1, data), of(t, 3, 1, commit), of(t, 4, 1, data), of(t, 5, 1, abort)},
			aborted: []abortedTxn{{pid: 1, first: 0}, {pid: 1, first: 4}},
			want:    []int64{2},
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			var d decoder
			set := bytes.Join(v.set, nil)
			b, err := d.decode(someTP, bytes.Clone(set), 0, true, slices.Clone(v.aborted))
			require.NoError(t, err)
			require.Equal(t, v.want, offsets(records(b)))
			last := v.set[len(v.set)-1]
			require.Equal(t, getInt64(last)+1, b.Next)

			b, err = d.decode(someTP, set, 0, false, v.aborted)
			require.NoError(t, err)
			require.Greater(t, len(records(b)), len(v.want), "read_uncommitted takes all but the markers")
		})
	}
}

func TestABombIsNotUnpacked(t *testing.T) {
	zeros := make([]byte, maxDecompressed+1)
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			var c compressors
			packed, err := c.append(nil, codec, zeros)
			require.NoError(t, err)
			var d decompressors
			_, err = d.decompress(codec, packed)
			require.ErrorContains(t, err, "more than 64 MiB")

			packed, err = c.append(nil, codec, zeros[:100])
			require.NoError(t, err)
			out, err := d.decompress(codec, packed)
			require.NoError(t, err, "the next batch is not worse off")
			require.Equal(t, zeros[:100], out)
		})
	}
	var d decompressors
	_, err := d.decompress(Snappy, append(bytes.Clone(xerialHeader), 0, 0, 1))
	require.Error(t, err)
	_, err = d.decompress(Snappy, append(bytes.Clone(xerialHeader), 0, 0, 1, 0))
	require.Error(t, err)
}

func TestASetOfBombsIsUnpackedPieceByPiece(t *testing.T) {
	var set []byte
	for base := range int64(5) {
		set = append(set, encoded(t, base, Zstd, task.OutRecord{Value: make([]byte, 7<<20)})...)
	}
	b, err := decodeSet(set, 0)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1, 2}, offsets(records(b)))
	require.EqualValues(t, 3, b.Next, "the rest is fetched again")
	b, err = decodeSet(set, b.Next)
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4}, offsets(records(b)))
	require.EqualValues(t, 5, b.Next)
}

func TestASmallSetDoesNotPinALargeBuffer(t *testing.T) {
	var p batchPool
	p.put(make([]byte, 1<<20))
	require.Less(t, cap(p.get(8<<10)), 1<<20)
	require.Equal(t, 1<<20, cap(p.get(1<<19)))
	require.Less(t, cap(p.get(1<<19)), 1<<20, "it is given once")
}

func TestThePoolIsBounded(t *testing.T) {
	var p batchPool
	for range 3 * poolBuffers {
		p.put(make([]byte, poolBytes/64))
		p.put(make([]byte, poolSmallest))
		p.recycle(&task.Batch{})
	}
	require.LessOrEqual(t, p.bytes, poolBytes)
	require.LessOrEqual(t, len(p.buffers), poolBuffers)
	require.LessOrEqual(t, len(p.batches), poolBuffers)
	for p.bytes > 0 {
		p.get(cap(p.buffers[len(p.buffers)-1]))
	}
	require.Empty(t, p.buffers)
}

// When what is fetched changes, what was kept of the time before makes room.
func TestThePoolForgetsWhatNobodyAsksFor(t *testing.T) {
	var p batchPool
	for range poolBytes >> 18 {
		p.put(make([]byte, 1<<18))
	}
	small := p.get(20_000)
	p.put(small)
	require.Same(t, &small[0], &p.get(20_000)[0])
	require.Equal(t, poolBytes-1<<18, p.bytes)
	p.put(make([]byte, poolBytes+1))
	require.Equal(t, poolBytes-1<<18, p.bytes, "what is larger than all of it does not empty it")
}

func TestABatchThatIsRecycledIsUsedAgain(t *testing.T) {
	var p batchPool
	d := decoder{pool: &p}
	want := numbered(1000)
	set := encoded(t, 0, None, want...)
	buf := p.get(len(set))
	copy(buf, set)
	first, err := d.decode(someTP, buf, 3, false, nil)
	require.NoError(t, err)
	require.Len(t, records(first), 997)
	p.recycle(first)
	require.Equal(t, &task.Batch{Runs: []task.Run{}, Memory: [][]byte{}}, first)
	again := p.get(len(set))
	require.Same(t, &buf[0], &again[0])
	copy(again, set)
	second, err := d.decode(someTP, again, 0, false, nil)
	require.NoError(t, err)
	require.Same(t, first, second)
	require.Len(t, records(second), 1000)
}

// A set that is damaged from its beginning on is used again at once: what is said of it must be read before.
func TestADamagedSetIsDescribedBeforeItIsUsedAgain(t *testing.T) {
	var p batchPool
	d := decoder{pool: &p}
	set := encoded(t, 10, None, typical(500)...)
	putInt32(set[17:], 0)
	buf := p.get(len(set))
	copy(buf, set)
	used := make(chan struct{})
	go func() { // another connection that fetches
		defer close(used)
		for {
			if again := p.get(len(set)); &again[0] == &buf[0] {
				clear(again)
				return
			}
			runtime.Gosched()
		}
	}()
	b, err := d.decode(someTP, buf, 3, false, nil)
	<-used
	require.Empty(t, records(b))
	var corrupt *CorruptBatchError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, int64(10), corrupt.BaseOffset)
	require.Equal(t, int64(509), corrupt.LastOffset)
}

func TestABatchWeighsTheMemoryThatItHolds(t *testing.T) {
	var p batchPool
	d := decoder{pool: &p}
	held := func(b *task.Batch) (n int) {
		for _, m := range b.Memory {
			n += cap(m)
		}
		return n + len(b.Runs)*runSize
	}
	for _, codec := range []Codec{None, Gzip, Snappy, LZ4, Zstd} {
		p.put(make([]byte, 64<<10)) // a set may lie in a buffer that is larger than it is
		set := encoded(t, 0, codec, task.OutRecord{Value: make([]byte, 20_000), Headers: make([]task.Header, 100)})
		buf := p.get(len(set))
		copy(buf, set)
		b, err := d.decode(someTP, buf, 0, false, nil)
		require.NoError(t, err)
		require.Len(t, records(b), 1)
		require.Equal(t, held(b), b.Bytes, codec)
		require.Greater(t, b.Bytes, 20_000)
	}
}

func TestCompressedRecordsOwnTheirMemory(t *testing.T) {
	var p batchPool
	d := decoder{pool: &p}
	set := encoded(t, 0, Zstd, typical(2000)...)
	require.Greater(t, len(set), poolSmallest)
	first, err := d.decode(someTP, set, 0, false, nil)
	require.NoError(t, err)
	again := p.get(len(set))
	require.Same(t, &set[0], &again[0], "the set is used again, nothing refers to it")
	clear(again)
	require.Equal(t, typical(2000)[1999].Value, records(first)[1999].Value)

	plain := encoded(t, 0, None, typical(500)...)
	b, err := d.decode(someTP, plain, 0, false, nil)
	require.NoError(t, err)
	require.NotSame(t, &plain[0], &p.get(len(plain))[0], "this one is the batch's")
	require.Equal(t, cap(plain)+runSize, b.Bytes)
}

func TestAnyRecordsSurviveTheCodec(t *testing.T) {
	maybe := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
	})
	header := rapid.Custom(func(t *rapid.T) task.Header {
		return task.Header{Key: rapid.StringN(0, 80, 200).Draw(t, "name"), Value: maybe.Draw(t, "value")}
	})
	record := rapid.Custom(func(t *rapid.T) task.OutRecord {
		r := task.OutRecord{Key: maybe.Draw(t, "key"), Value: maybe.Draw(t, "value"), Timestamp: rapid.Int64().Draw(t, "time")}
		if h := rapid.SliceOfN(header, 0, 5).Draw(t, "headers"); len(h) > 0 {
			r.Headers = h
		}
		return r
	})
	var e encoder
	var d decoder
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(record, 1, 20).Draw(rt, "records")
		p := plainBatch(someTP, want...)
		p.Codec = rapid.SampledFrom(allCodecs).Draw(rt, "codec")
		set, err := e.appendBatch(nil, &p)
		require.NoError(rt, err)
		base := rapid.Int64Range(0, 1<<62).Draw(rt, "base")
		putInt64(set, base)
		from := base + rapid.Int64Range(-3, int64(len(want))).Draw(rt, "skip")
		b, err := d.decode(someTP, set, max(from, 0), false, nil)
		require.NoError(rt, err)
		want = want[max(0, min(int(from-base), len(want))):]
		got := records(b)
		require.Len(rt, got, len(want))
		for i, w := range want {
			g := got[i]
			require.Equal(rt, w, task.OutRecord{Key: g.Key, Value: g.Value, Timestamp: g.Timestamp, Headers: g.Headers})
		}
		require.Equal(rt, max(from, base+int64(len(p.Groups[0].Refs))), b.Next)
	})
}
