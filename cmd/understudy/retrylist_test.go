package main

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// parks appends what a task writes when it puts a record aside.
func parks(e retry.Entry, payload string) []task.OutRecord {
	e.Bytes = len(payload)
	return []task.OutRecord{
		{Key: retry.AppendEntryKey(nil, e.Origin), Value: retry.AppendEntry(nil, &e)},
		{Key: retry.AppendPayloadKey(nil, e.Origin), Value: retry.AppendPayload(nil, e.Origin, &retry.Payload{Value: []byte(payload)})},
	}
}

// unparks is what it writes when the record is done.
func unparks(o retry.Origin) []task.OutRecord {
	return []task.OutRecord{{Key: retry.AppendEntryKey(nil, o)}, {Key: retry.AppendPayloadKey(nil, o)}}
}

func (b *bed) retries(partition int32, records ...[]task.OutRecord) {
	b.t.Helper()
	for _, r := range records {
		require.NoError(b.t, b.client.Produce(b.t.Context(), task.TopicPartition{Topic: "shop-in-retry", Partition: partition}, r...))
	}
}

// ofNewer makes a row one of a version that comes after this one.
func ofNewer(rec task.OutRecord) task.OutRecord {
	body := append([]byte{9}, rec.Value[1:len(rec.Value)-4]...)
	table := crc32.MakeTable(crc32.Castagnoli)
	rec.Value = binary.BigEndian.AppendUint32(body, crc32.Update(crc32.Checksum(body, table), table, rec.Key))
	return rec
}

func TestRegressionEntryOfANewerVersionIsListed(t *testing.T) {
	b := newBed(t)
	rows := parks(retry.Entry{Origin: origin(0, 4), Key: []byte("a")}, "pay")
	rows[0] = ofNewer(rows[0])
	b.retries(0, rows)
	out, err := b.command("retry", "list")
	require.NoError(t, err)
	require.Contains(t, out, "newer version")
	v, err := b.drain("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Newer)
	require.Equal(t, 1, b.lies())
}

func TestRetryList(t *testing.T) {
	b := newBed(t)
	out, err := b.command("retry", "list")
	require.NoError(t, err)
	require.Equal(t, "shop-in-retry  0 parked (0 bytes), 0 of them due, 0 behind another of their key\n", out)

	late := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	first := retry.Entry{Origin: origin(0, 4), Key: []byte("a"), Seq: 1, Attempt: 1, First: 1_000, Due: 2_000, Class: "*app.NotFound", Node: "lookup", Message: "no\x1b[2J customer"}
	again := first
	again.Attempt, again.Due = 3, 4_000
	b.retries(0, parks(first, "pay"), parks(retry.Entry{Origin: origin(0, 5), Key: []byte("a"), Seq: 2, Due: retry.Follows}, "load"),
		parks(retry.Entry{Origin: origin(0, 6), Key: []byte("b"), Seq: 3, Due: 5_000}, "done"), unparks(origin(0, 6)), parks(again, "pay"))
	damaged := parks(retry.Entry{Origin: origin(2, 9), Due: 1}, "x")
	damaged[0].Value[1] ^= 0xff
	b.retries(2, parks(retry.Entry{Origin: origin(2, 8), NullKey: true, Attempt: 2, First: 7, Due: late, Class: "panic", Node: "sum"}, "x"), damaged,
		[]task.OutRecord{{Key: []byte("nonsense"), Value: []byte("x")}})

	out, err = b.command("retry", "list")
	require.NoError(t, err)
	golden(t, "retry_list.txt", out)

	out, err = b.command("retry", "list", "-json", "-source", "in", "-most", "1", "-class", "panic")
	require.NoError(t, err)
	var v parkedView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Len(t, v.Topics, 1)
	require.Equal(t, 3, v.Topics[0].Parked, "what cannot be read may be of any class")
	require.Equal(t, 2, v.Topics[0].Problems)
	require.Len(t, v.Topics[0].Records, 1)
	require.NotEmpty(t, v.Topics[0].Records[0].Problem)

	out, err = b.command("retry", "list", "-json", "-key", "a")
	require.NoError(t, err)
	v = parkedView{}
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, &parkedRecord{
		Partition: 0, Record: originView{Topic: "in", Partition: 0, Offset: 4}, Key: bytesView{Text: "a"}, Attempt: 3, First: 1_000, Due: 4_000,
		Class: "*app.NotFound", Node: "lookup", Message: "no\x1b[2J customer", Bytes: 3,
	}, v.Topics[0].Records[2])
}
