package retry

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// hibiken/asynq #1015, #1144: after a kill -9 in the middle of a task its lease was gone, and nobody found the work again.
func TestRegressionKilledInTheMiddleTheWorkIsFoundWithItsAttempts(t *testing.T) {
	store := map[string][]byte{}
	x := NewIndex(ModeKeyOrdered)
	e := testEntry(1, "a", 50)
	e.Attempt = 3
	for _, it := range []*Item{x.Park(e), x.Park(testEntry(2, "a", 50))} {
		store[string(AppendEntryKey(nil, it.Origin))] = AppendEntry(nil, &it.Entry)
	}
	x.Start(x.Due(60)) // nothing is written for that, and the process dies

	x = NewIndex(ModeKeyOrdered)
	for key, row := range store {
		o, _, err := ParseKey([]byte(key))
		require.NoError(t, err)
		e, err := DecodeEntry(o, row)
		require.NoError(t, err)
		x.Load(e, false)
	}
	it := x.Due(60)
	require.EqualValues(t, 1, it.Offset)
	require.Equal(t, 3, it.Attempt)
	require.EqualValues(t, 50, it.Due)
	require.False(t, it.Running())
	require.Len(t, x.Followers(it), 1)
}

// Farfetch/kafkaflow-retry-extensions #158: one record that was too big for the store stopped all of them. Rows take little more than their
// record, so a topic that takes 64 KiB more than the source takes every row; and who refuses one touches its key alone.
func TestRegressionARowTakesLittleMoreThanItsRecordAndOneTooBigTouchesItsKeyAlone(t *testing.T) {
	const maxRecord = 1 << 20
	o := Origin{Topic: string(make([]byte, 249)), Partition: 1<<31 - 1, Offset: 1<<63 - 1}
	long := string(make([]byte, MaxText))
	big := make([]byte, maxRecord)
	for name, row := range map[string][]byte{
		"key":   AppendEntry(nil, &Entry{Origin: o, Key: big, Seq: 1<<64 - 1, Kind: long, Class: long, Node: long, Message: long, Root: o}),
		"value": AppendPayload(nil, o, &Payload{Value: big, Timestamp: -1 << 63}),
		"headers": AppendPayload(nil, o, &Payload{Headers: func() (hs []Header) {
			for range maxRecord / 4 { // a header of one byte takes four in a record, with the lengths of its name and its value
				hs = append(hs, Header{Key: "h", Value: []byte{1}})
			}
			return hs
		}()}),
	} {
		require.Less(t, len(row)+len(AppendPayloadKey(nil, o)), maxRecord+64<<10, name)
	}

	x := NewIndex(ModeKeyOrdered)
	for i := range int64(20) {
		x.Park(testEntry(i, fmt.Sprint(i%4), 10))
	}
	tooBig, _ := x.Find(Origin{Topic: "t", Offset: 1})
	next := x.Remove(tooBig, 5)
	require.EqualValues(t, 5, next.Offset)
	for i := range 4 {
		require.Equal(t, map[bool]int{true: 4, false: 5}[i == 1], x.Depth([]byte(fmt.Sprint(i))))
	}
	require.Equal(t, 4, x.Stats(10).Due, "each key goes on")
}

// getsentry/arroyo #431, snuba #8166, sentry #86751: payloads waited in memory for the dead letters, which went to the topic of another one.
func TestRegressionNoPayloadIsKeptInMemoryAndTheLetterNamesItsOwnTopic(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	message := string(make([]byte, MaxText))
	for i, topic := range []string{"orders", "returns", "orders"} {
		e := Entry{Origin: Origin{Topic: topic, Offset: int64(i)}, Key: []byte(topic), Message: message, Bytes: 1 << 20}
		it := x.Park(e)
		require.Empty(t, it.Message)
		if it.Head() {
			x.Start(it)
			it.Message = message
			x.Again(it)
			require.Empty(t, it.Message)
		}
	}
	require.EqualValues(t, 3<<20, x.Stats(0).Bytes)
	item := reflect.TypeFor[Item]()
	for _, f := range reflect.VisibleFields(item) {
		require.NotEqual(t, reflect.TypeFor[Payload](), f.Type)
		if f.Type.Kind() == reflect.Slice {
			require.Equal(t, "Key", f.Name)
		}
	}
	for i, topic := range []string{"orders", "returns", "orders"} {
		it, _ := x.Find(Origin{Topic: topic, Offset: int64(i)})
		l := Letter{Origin: it.Origin}
		got, _, ok := ParseLetter(l.AppendHeaders(nil, nil))
		require.True(t, ok)
		require.Equal(t, topic, got.Topic)
	}
}
