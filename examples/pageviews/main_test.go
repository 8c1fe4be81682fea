package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPageviewsShowsBothTotals(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &kit.Flags{App: "pageviews"}, &out))
	require.Equal(t, "ada    3 views, 45 s, longest on /docs\ngrace  2 views, 42 s, longest on /docs\n", out.String())
}

func TestTotalsSurviveARestartWithoutTheState(t *testing.T) {
	d := streamstest.New(t, topology(), streamstest.Partitions("views", 2))
	in := streamstest.In(d, "views", serde.Bytes, serde.JSON[View]())
	for i, v := range views {
		in.Pipe(nil, v, streamstest.ToPartition(int32(i%2)))
		d.Restart(false)
	}
	rows := streamstest.Store(d, "totals", serde.String, serde.JSON[Total]())
	ada, found := rows.Get("ada")
	require.True(t, found)
	require.Equal(t, Total{Views: 3, Seconds: 45, Longest: View{"ada", "/docs", 30}}, ada)
	grace, found := rows.Get("grace")
	require.True(t, found)
	require.Equal(t, Total{Views: 2, Seconds: 42, Longest: View{"grace", "/docs", 40}}, grace)
}

func TestAViewThatIsNoJSONFails(t *testing.T) {
	d := streamstest.New(t, topology())
	err := d.TryPipeRaw("views", nil, []byte("{"))
	require.ErrorContains(t, err, "views-0 at offset 0")
	require.ErrorContains(t, err, "decode")
}
