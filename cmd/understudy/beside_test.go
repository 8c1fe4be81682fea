package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// metadata is that of a commit of offset 3, in which 3 and 5 to 6 are open.
func metadata(t *testing.T) string {
	m := retry.NewMetadata(3)
	m.StreamTime, m.Main, m.Holes = 1_000, 9, []retry.Run{{From: 3, To: 4}, {From: 5, To: 7}}
	m.Head, m.Running = &retry.Head{Attempt: 2, First: 500, Due: 1_500}, true
	s, fits := m.Encode(3)
	require.True(t, fits)
	return s
}

func TestDescribeShowsWhatIsDoneBeyondTheOffset(t *testing.T) {
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 4}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	tools, err := broker.NewClient(b.Addrs())
	require.NoError(t, err)
	t.Cleanup(tools.Close)
	require.NoError(t, tools.Produce(t.Context(), task.TopicPartition{Topic: "in"}, make([]task.OutRecord, 10)...))
	early := retry.NewMetadata(0)
	early.StreamTime = 7_000
	streamTime, fits := early.Encode(0)
	require.True(t, fits)
	app := uniqueName()
	group := outside.GroupOffsets{Client: openClient(t, b.Addrs()), Group: app}
	defer group.Close()
	in := func(p int32) task.TopicPartition { return task.TopicPartition{Topic: "in", Partition: p} }
	require.NoError(t, group.Commit(t.Context(), []task.InputOffset{
		{TopicPartition: in(0), Offset: 3, Metadata: metadata(t)},
		{TopicPartition: in(1), Offset: 0, Metadata: "written by hand"},
		{TopicPartition: in(2), Offset: 0, Metadata: streamTime},
		{TopicPartition: in(3), Offset: 0},
	}))
	joins(t, b.Addrs(), app, 1)
	args := []string{"group", "describe", "-brokers", b.Addrs()[0], "-app", app, "-offsets"}
	var v view
	require.Eventually(t, func() bool {
		out, _, err := command(t, append(args, "-json")...)
		v = view{}
		return err == nil && json.Unmarshal([]byte(out), &v) == nil && len(v.Partitions) == 4
	}, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, &besideView{
		StreamTime: 1_000, Main: 9, Holes: []runView{{From: 3, To: 4}, {From: 5, To: 7}}, Open: 3, Head: &headView{Attempt: 2, First: 500, Due: 1_500},
		Running: true, Suspect: -1,
	}, v.Partitions[0].Beside)
	require.Contains(t, v.Partitions[1].Beside.Problem, "another program")
	require.Equal(t, &besideView{StreamTime: 7_000, Suspect: -1}, v.Partitions[2].Beside)
	require.Nil(t, v.Partitions[3].Beside)

	out, _, err := command(t, args...)
	require.NoError(t, err)
	require.Contains(t, out, "\nbeside the offsets\n  in-0  stream time 1970-01-01T00:00:01.000Z, main 9, open 3 [3 5-6], head attempt 2")
	require.Contains(t, out, `  in-1  retry: metadata "written by hand" of offset 0`)
	require.NotContains(t, out, "  in-2  ")
}

// What a commit says of a log that has not come so far is not believed.
func TestRegressionMetadataIsHeldAgainstTheEndOfTheLog(t *testing.T) {
	require.Empty(t, besideOf(metadata(t), 3, 9).Problem)
	require.Contains(t, besideOf(metadata(t), 3, 8).Problem, "the log ends at 8")
	require.NotEmpty(t, besideOf(metadata(t), 4, 20).Problem, "of another offset")
}
