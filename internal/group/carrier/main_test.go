package carrier

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/realkafka"
)

func TestMain(m *testing.M) {
	// The tools that a test uses start sarama's meters, one goroutine for the whole process.
	meters := goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")
	goleak.VerifyTestMain(m, meters, goleak.Cleanup(func(code int) {
		if err := realkafka.StopShared(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

func embedded(t *testing.T, nodes int) *broker.Broker {
	b, err := broker.Start(broker.Options{Brokers: nodes})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// onBoth runs a test against the embedded broker and against a real one.
func onBoth(t *testing.T, test func(t *testing.T, addrs []string)) {
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t, 1).Addrs()) })
	t.Run("real", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a broker")
		}
		test(t, realkafka.Shared(t).Addrs())
	})
}
