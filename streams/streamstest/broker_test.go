package streamstest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestBroker(t *testing.T) {
	b := streamstest.Broker(t, map[string]int32{"in": 3})
	require.NotEmpty(t, b.Addrs())
	header := streams.Header{Key: "h", Value: []byte("x")}
	b.Put("in", []byte("k"), []byte("v"), streamstest.AtMillis(5), streamstest.Headers(header))
	b.Put("in", nil, nil, streamstest.AtMillis(6), streamstest.ToPartition(0))
	all := b.Await("in", 2, 10*time.Second)
	require.Len(t, all, 2)
	require.Equal(t, streamstest.RawRecord{Partition: 0, Time: time.UnixMilli(6).UTC()}, all[0])
	require.Equal(t, []streams.Header{header}, all[1].Headers)
	require.Equal(t, "k", string(all[1].Key))
}

func TestBrokerFailures(t *testing.T) {
	r := &recorder{}
	t.Cleanup(r.end)
	b := streamstest.Broker(r, map[string]int32{"in": 1})
	require.PanicsWithValue(t, `streamstest: topic "in" has 0 records after 1ms, not 1`, func() { b.Await("in", 1, time.Millisecond) })
	require.Panics(t, func() { b.All("nowhere") })
}
