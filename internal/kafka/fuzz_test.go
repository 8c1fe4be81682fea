package kafka

import (
	"bufio"
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// checkDecoded is what holds of anything decoded from whatever bytes.
func checkDecoded(t *testing.T, b *task.Batch, err error, from int64) {
	t.Helper()
	require.NotNil(t, b)
	require.GreaterOrEqual(t, b.Next, from)
	prev := from - 1
	for _, r := range records(b) {
		require.Greater(t, r.Offset, prev)
		prev = r.Offset
	}
	var corrupt *CorruptBatchError
	if errors.As(err, &corrupt) {
		require.GreaterOrEqual(t, corrupt.LastOffset, b.Next, "skipping it must move on")
		return
	}
	require.NoError(t, err)
	require.Less(t, prev, max(b.Next, from+1))
}

// FuzzDecode feeds the batch decoder. Half of the time the checksum of the first batch is made right, or nothing behind it were ever reached.
func FuzzDecode(f *testing.F) {
	for _, codec := range allCodecs {
		f.Add(encoded(f, 3, codec, strange()[:6]...), int64(0), true, true)
		f.Add(append(encoded(f, 3, codec, numbered(4)...), encoded(f, 9, codec, numbered(2)...)...), int64(4), false, false)
	}
	f.Add(append(encoded(f, 3, None, numbered(4)...), encoded(f, 4, None, numbered(5)...)...), int64(0), false, false)
	marker := encoded(f, 5, None, task.OutRecord{Key: []byte{0, 0, 0, 0}, Value: []byte{0, 0, 0, 0, 0, 0}})
	marker[22] |= attrControl | attrTransaction
	f.Add(sign(marker), int64(0), true, true)
	f.Fuzz(func(t *testing.T, set []byte, from int64, committed, fix bool) {
		if from < 0 {
			return
		}
		if fix && len(set) > batchHeaderLen {
			if n, _ := batchLen(set); n > batchHeaderLen {
				putInt32(set[17:], 0)
				sign(set[:n])
			}
		}
		var d decoder
		b, err := d.decode(someTP, set, from, committed, []abortedTxn{{pid: -1, first: 4}, {pid: 7, first: 0}})
		checkDecoded(t, b, err, from)
	})
}

// FuzzRecords feeds the record walker alone.
func FuzzRecords(f *testing.F) {
	for _, records := range [][]task.OutRecord{strange()[:6], numbered(5)} {
		f.Add(encoded(f, 0, None, records...)[batchHeaderLen:], len(records), int64(0))
	}
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 1, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, count int, from int64) {
		if count < 0 || count > len(b)/minRecordLen {
			return
		}
		var d decoder
		var out task.Batch
		h := batchHeader{base: 10, last: 10 + int64(count), count: count}
		first, err := checkRecords(b, h, from)
		if err != nil {
			return
		}
		d.add(&out, h, b, false, first)
		for _, r := range records(&out) { // which takes everything on trust now
			require.GreaterOrEqual(t, r.Offset, max(from, h.base))
			require.LessOrEqual(t, r.Offset, h.last)
		}
	})
}

// fetchAnswer is the body of an answer with one partition, which may be there for every one of some sets.
func fetchAnswer(code int16, sets ...[]byte) []byte {
	b := appendInt32(nil, 0)
	b = appendInt16(b, code)
	b = appendInt32(b, 0)
	b = appendString(appendInt32(b, 1), someTP.Topic)
	b = appendInt32(b, int32(len(sets)))
	for _, set := range sets {
		b = appendInt16(appendInt32(b, someTP.Partition), code)
		for _, n := range []int64{20, 19, 1} {
			b = appendInt64(b, n)
		}
		b = appendInt64(appendInt64(appendInt32(b, 1), 7), 3)
		b = appendInt32(b, -1)
		b = append(appendInt32(b, int32(len(set))), set...)
	}
	return b
}

func framed(correlation int32, body []byte) []byte {
	return append(appendInt32(appendInt32(nil, int32(len(body)+4)), correlation), body...)
}

// FuzzFetchAnswer feeds the reader of Fetch answers.
func FuzzFetchAnswer(f *testing.F) {
	f.Add(framed(1, fetchAnswer(0, encoded(f, 3, None, numbered(3)...))))
	f.Add(framed(1, fetchAnswer(0, encoded(f, 2, None, numbered(1)...), encoded(f, 2, None, numbered(3)...))))
	f.Add(framed(1, fetchAnswer(1, nil)))
	f.Add(framed(1, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := frame{r: bufio.NewReader(bytes.NewReader(b))}
		fr.open(1, 1<<20)
		var c FetchConn
		req := FetchRequest{Parts: []FetchPart{{TopicPartition: someTP, Offset: 2}}}
		res := c.read(&fr, req)
		if fr.close() != nil {
			return
		}
		require.LessOrEqual(t, len(res.Parts), 1, "no partition is answered twice")
		for _, p := range res.Parts {
			require.Equal(t, someTP, p.TopicPartition)
			if p.Code == 0 {
				checkDecoded(t, p.Batch, p.Err, 2)
			}
		}
	})
}

// FuzzProduceAnswer feeds the reader of Produce answers.
func FuzzProduceAnswer(f *testing.F) {
	body := appendString(appendInt32(nil, 1), someTP.Topic)
	body = appendInt32(appendInt32(body, 1), someTP.Partition)
	body = appendInt64(appendInt64(appendInt64(appendInt16(body, 87), -1), -1), 0)
	body = appendString(appendInt32(appendInt32(body, 1), 3), "no key")
	body = appendInt32(appendInt16(body, -1), 0)
	f.Add(framed(1, body))
	f.Add(framed(1, body[:20]))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := frame{r: bufio.NewReader(bytes.NewReader(b))}
		fr.open(1, 1<<20)
		res := readProduced(&fr, []task.TopicPartition{someTP})
		if fr.close() == nil {
			require.Len(t, res.Parts, 1)
			require.Equal(t, someTP, res.Parts[0].TopicPartition)
		}
	})
}
