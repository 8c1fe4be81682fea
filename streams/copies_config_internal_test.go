package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/streams/serde"
)

func TestCopiesAreConfigured(t *testing.T) {
	c := Config{
		ApplicationID: "app", Brokers: []string{"localhost:1"}, Standbys: 2, LearnersPerProcess: 3, Learners: 5, LearnRate: -1, AcceptableLag: 7,
		Coalesce: time.Minute, StateCleanup: time.Hour, Tags: map[string]string{"zone": "z1"}, SpreadTags: []string{"zone"}, Log: zap.NewNop(),
	}
	b := NewBuilder()
	b.Stream("in", serde.String, serde.String).To("out")
	a, err := New(b, c)
	require.NoError(t, err)
	e := a.shell(nil, &stateDir{}).Engine
	require.Equal(t, assignor.Policy{Standbys: 2, LearnersPerMember: 3, Learners: 5, AcceptableLag: 7, SpreadTags: []string{"zone"}}, e.Group.Policy)
	require.Equal(t, map[string]string{"zone": "z1"}, e.Group.Tags)
	require.Equal(t, []any{-1, int64(7), time.Minute, time.Hour}, []any{e.LearnRate, e.AcceptableLag, e.Coalesce, e.StateCleanup})
}

func TestCopiesHaveDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	require.Equal(t, []any{0, 0, 0, 64 << 20, int64(10_000)}, []any{c.Standbys, c.LearnersPerProcess, c.Learners, c.LearnRate, c.AcceptableLag})
	require.Equal(t, []time.Duration{5 * time.Second, time.Hour, 10 * time.Minute}, []time.Duration{c.Coalesce, c.StateCleanup, c.DrainTimeout})
}

func TestFaultsOfTheConfigurationOfCopies(t *testing.T) {
	many := map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": ""}
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"standbys":    {func(c *Config) { c.Standbys = -1 }, "Standbys is -1: it must be positive, or 0 for the default"},
		"lag":         {func(c *Config) { c.AcceptableLag = -1 }, "AcceptableLag is -1"},
		"coalesce":    {func(c *Config) { c.Coalesce = -1 }, "Coalesce is -1ns: it must be positive, or 0 for the default"},
		"cleanup":     {func(c *Config) { c.StateCleanup = -1 }, "StateCleanup"},
		"drain":       {func(c *Config) { c.DrainTimeout = -1 }, "DrainTimeout"},
		"many tags":   {func(c *Config) { c.Tags = many }, "Tags has 6 tags: use 5 at the most"},
		"no key":      {func(c *Config) { c.Tags = map[string]string{"": "x"} }, `Tags has ""="x": a key takes 1 to 20 bytes`},
		"long value":  {func(c *Config) { c.Tags = map[string]string{"zone": "a zone with a name that is long"} }, "a value up to 30"},
		"unknown tag": {func(c *Config) { c.SpreadTags = []string{"zone"} }, `SpreadTags has "zone", which is not a key of Tags: set it there, to where this process is`},
		"tag twice": {func(c *Config) {
			c.Tags, c.SpreadTags = map[string]string{"zone": "a"}, []string{"zone", "zone"}
		}, `SpreadTags has "zone" twice`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{ApplicationID: "app", Brokers: []string{"localhost:1"}}
			c.change(&cfg)
			var faults *ConfigError
			require.ErrorAs(t, cfg.withDefaults().validate(false, nil), &faults)
			require.Len(t, faults.Faults, 1)
			require.ErrorContains(t, faults, c.says)
		})
	}
}
