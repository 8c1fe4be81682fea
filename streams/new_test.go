package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func TestNewReportsFaultsOfTopologyAndConfigurationOnceEach(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).GroupByKey().Count("c").ToStream().To("")
	_, err := streams.New(b, streams.Config{})
	var topology *streams.TopologyError
	require.ErrorAs(t, err, &topology)
	require.Len(t, topology.Faults, 1, "the application id is a fault of the configuration only: %v", topology)
	var config *streams.ConfigError
	require.ErrorAs(t, err, &config)
	require.Len(t, config.Faults, 2, "%v", config)
	require.ErrorContains(t, config, "the ApplicationID is missing")
	require.ErrorContains(t, config, "Brokers is empty")
}

func TestNewWithoutIDStillSaysThatStateNeedsADirectory(t *testing.T) {
	_, err := streams.New(countWords("in", "out"), streams.Config{ApplicationID: "not a name", Brokers: []string{"localhost:9092"}})
	require.ErrorContains(t, err, `the ApplicationID "not a name" has a ' ' in it`)
	require.ErrorContains(t, err, "StateDir is empty")
}

func TestNewOfNothing(t *testing.T) {
	_, err := streams.New(nil, streams.Config{ApplicationID: "a", Brokers: []string{"localhost:9092"}})
	require.ErrorContains(t, err, "the topology is empty: begin with Builder.Stream or Builder.Table")
}
