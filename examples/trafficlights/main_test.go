package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/examples/internal/kit"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(controllerEnv); spec != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := control(ctx, spec, os.Stdout)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// story plays the crash, and returns how many old reports were still to be looked at when the first fresh light was set.
func story(t *testing.T, serial bool) (left int, said string) {
	var out bytes.Buffer
	o := &order{rate: 1000, before: 500 * time.Millisecond, outage: 2500 * time.Millisecond, session: 2 * time.Second, serial: serial}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := run(ctx, &kit.Flags{App: "trafficlights"}, o, &out)
	require.NoError(t, err, out.String())
	found := regexp.MustCompile(`fresh lights .* while (\d+) of the old reports`).FindStringSubmatch(out.String())
	require.Len(t, found, 2, out.String())
	left, err = strconv.Atoi(found[1])
	require.NoError(t, err)
	require.Regexp(t, `each of \d+ reports has set its light`, out.String())
	return left, out.String()
}

func TestRecoveryGivesFreshLightsAtOnce(t *testing.T) {
	t.Parallel()
	left, said := story(t, false)
	require.Greater(t, left, 500, said)
	require.Regexp(t, `reports/\d \[#*-*\] .* of \d+\.\.\d+`, said, "the progress is shown")
}

func TestWithoutRecoveryFreshLightsComeLast(t *testing.T) {
	t.Parallel()
	left, said := story(t, true)
	require.Less(t, left, 500, said)
	require.NotContains(t, said, "reports/0 [")
}

func TestDecide(t *testing.T) {
	green, err := decide("17 1234 3")
	require.NoError(t, err)
	require.Equal(t, 6*time.Second, green)
	for _, report := range []string{"", "17 1234", "17 1234 x", "17 1234 -1", "a b c d"} {
		_, err := decide(report)
		require.ErrorIs(t, err, errReport, report)
	}
}
