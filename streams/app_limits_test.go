package streams_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// What a real broker would refuse, and with it every other record of the batch, fails in the unit that makes it, by the topic's own
// configuration. The embedded broker takes such records, so the refusal below is ours.
func TestAppLearnsTheLimitsOfItsSinks(t *testing.T) {
	t.Parallel()
	future := time.Now().Add(48 * time.Hour).UnixMilli()
	cases := []struct {
		name    string
		configs map[string]string
		bad     task.OutRecord
		says    string
	}{
		{"null key to a compacted topic", map[string]string{"cleanup.policy": "compact"}, task.OutRecord{Value: []byte("x")}, "is compacted: give it a key"},
		{"too large", map[string]string{"max.message.bytes": "1000"}, task.OutRecord{Key: []byte("k"), Value: make([]byte, 2000)}, "raise the limit of the topic"},
		{"from the future", map[string]string{"message.timestamp.after.max.ms": "3600000"}, task.OutRecord{Key: []byte("k"), Value: []byte("x"), Timestamp: future}, "message.timestamp.after.max.ms"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, b *bed) {
				in := b.name("in")
				require.NoError(t, b.client.CreateTopic(b.ctx(), in, 1, map[string]string{"message.timestamp.after.max.ms": "9223372036854775807"}))
				out := b.name("out")
				require.NoError(t, b.client.CreateTopic(b.ctx(), out, 1, c.configs))
				good := task.OutRecord{Key: []byte("a"), Value: []byte("b"), Timestamp: time.Now().UnixMilli()}
				bad := c.bad
				if bad.Timestamp == 0 {
					bad.Timestamp = good.Timestamp
				}
				b.put(in, 0, good, bad, good)
				var re *streams.RecordError
				require.ErrorAs(t, b.run(copyTopic(in, out), b.config("copy")).fails(), &re)
				require.Equal(t, streams.KindProduce, re.Kind)
				require.ErrorContains(t, re, c.says)
				require.Equal(t, int64(1), re.Offset, "%v", re)
				require.Len(t, b.all(out), 1, "what precedes it is out")
			})
		})
	}
}
