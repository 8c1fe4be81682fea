package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/realkafka"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := realkafka.StopShared(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// onBoth runs a test against the embedded broker and against a real one.
func onBoth(t *testing.T, test func(t *testing.T, addrs []string)) {
	t.Run("embedded", func(t *testing.T) {
		b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 4}})
		require.NoError(t, err)
		t.Cleanup(b.Close)
		test(t, b.Addrs())
	})
	t.Run("real", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a broker")
		}
		addrs := realkafka.Shared(t).Addrs()
		c, err := broker.NewClient(addrs)
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.CreateTopic(ctx, "in", 4, nil); err != nil {
			require.ErrorIs(t, err, broker.ErrTopicExists)
		}
		test(t, addrs)
	})
}

// golden holds output against a file of testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// command runs the program with these arguments.
func command(t *testing.T, args ...string) (out, diagnostics string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var o, d bytes.Buffer
	err = run(ctx, args, &o, &d)
	return o.String(), d.String(), err
}

func TestCommandLine(t *testing.T) {
	cases := []struct {
		name string
		args []string
		says string
		err  error
	}{
		{"nothing", nil, "usage: understudy group list", errUsage},
		{"something else", []string{"group", "remove"}, "usage: understudy group list", errUsage},
		{"help", []string{"-h"}, "usage: understudy group list", flag.ErrHelp},
		{"help on flags", []string{"group", "describe", "-h"}, "-brokers", flag.ErrHelp},
		{"no app", []string{"group", "describe", "-brokers", "localhost:1"}, "-app is missing", errUsage},
		{"no brokers", []string{"group", "describe", "-app", "a"}, "-brokers is missing", errUsage},
		{"an argument", []string{"group", "describe", "-app", "a", "-brokers", "localhost:1", "app2"}, `"app2" is no flag`, errUsage},
		{"no time", []string{"group", "describe", "-app", "a", "-brokers", "localhost:1", "-timeout", "0s"}, "-timeout is 0s", errUsage},
		{"no format", []string{"dlq", "show", "-app", "a", "-brokers", "localhost:1", "-as", "octal"}, `-as is "octal"`, errUsage},
		{"an offset of no partition", []string{"dlq", "show", "-app", "a", "-brokers", "localhost:1", "-offset", "3"}, "-offset needs -partition", errUsage},
		{"no bytes", []string{"dlq", "show", "-app", "a", "-brokers", "localhost:1", "-bytes", "-1"}, "-bytes is -1", errUsage},
		{"no records", []string{"retry", "list", "-app", "a", "-brokers", "localhost:1", "-most", "-1"}, "-most is -1", errUsage},
		{"no key", []string{"retry", "list", "-app", "a", "-brokers", "localhost:1", "-key", "hex:0"}, "-key hex:0", errUsage},
		{"no moment", []string{"dlq", "redrive", "-app", "a", "-brokers", "localhost:1", "-from", "yesterday"}, `-from "yesterday" is no time`, errUsage},
		{"no other moment", []string{"dlq", "redrive", "-app", "a", "-brokers", "localhost:1", "-to", "-2h"}, `-to "-2h" is no time`, errUsage},
		{"no span", []string{"dlq", "redrive", "-app", "a", "-brokers", "localhost:1", "-from", "1h", "-to", "2h"}, "-from is not before -to", errUsage},
		{"a negative time", []string{"dlq", "list", "-app", "a", "-brokers", "localhost:1", "-timeout", "-1s"}, "-timeout is -1s", errUsage},
		{"help on redrives", []string{"dlq", "redrive", "-h"}, "-apply", flag.ErrHelp},
		{"no pattern", []string{"group", "list", "-brokers", "localhost:1", "-match", "("}, "-match is no regular expression", errUsage},
		{"no goal", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1"}, "-to or -by is missing", errUsage},
		{"two goals", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1", "-to", "latest", "-by", "1h"}, "exclude each other", errUsage},
		{"a goal that is none", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1", "-to", "noon"}, `-to "noon" is neither`, errUsage},
		{"partitions of no topic", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1", "-to", "0", "-partition", "1"}, "-partition needs one -topic", errUsage},
		{"no partition", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1", "-to", "0", "-topic", "t", "-partition", "1,x"}, `"x" is no partition`, errUsage},
		{"offsets only and more", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1", "-to", "0", "-offsets-only", "-state-dir", "s"}, "-offsets-only leaves", errUsage},
		{"no pattern of a topic", []string{"group", "reset", "-app", "a", "-brokers", "localhost:1", "-to", "0", "-take", "a["}, `"a[" is no pattern`, errUsage},
		{"letters alone", []string{"group", "delete", "-app", "a", "-brokers", "localhost:1", "-dead-letters"}, "-dead-letters needs -internal-topics", errUsage},
		{"a negative pause", []string{"group", "lag", "-group", "a", "-brokers", "localhost:1", "-watch", "-1s"}, "-watch is -1s", errUsage},
		{"an unknown flag", []string{"group", "describe", "-what"}, "-what", errUsage},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, diagnostics, err := command(t, c.args...)
			require.ErrorIs(t, err, c.err)
			require.Contains(t, diagnostics, c.says)
		})
	}
}

func TestConnection(t *testing.T) {
	password := func(string) string { return "secret" }
	c := connection{brokers: "a:1, b:2,", mechanism: "PLAIN", user: "u", tls: true}
	cfg, err := c.config(password)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, cfg.Brokers)
	require.NotNil(t, cfg.TLS)
	require.Equal(t, "secret", cfg.SASL.Password)

	c = connection{brokers: "a:1", ca: "main_test.go"}
	_, err = c.config(password)
	require.ErrorContains(t, err, "holds no PEM certificate")
	for says, c := range map[string]connection{
		"-user needs -sasl":      {user: "u"},
		"-sasl needs -user":      {mechanism: "PLAIN"},
		"-sasl FOO is not known": {user: "u", mechanism: "FOO"},
	} {
		c.brokers = "a:1"
		_, err = c.config(password)
		require.ErrorContains(t, err, says)
	}
	c = connection{brokers: "a:1", user: "u", mechanism: "SCRAM-SHA-256"}
	_, err = c.config(func(string) string { return "" })
	require.ErrorContains(t, err, "UNDERSTUDY_PASSWORD")
	c = connection{brokers: "nonsense"}
	_, err = c.config(password)
	require.ErrorContains(t, err, "host:port")
}
