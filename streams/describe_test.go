package streams_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// shop has a node of every kind.
func shop() *streams.Builder {
	b := streams.NewBuilder()
	orders := b.Stream("orders", serde.String, serde.String, streams.OnFailure(retry.KeyOrdered(retry.ThenDeadLetter())))
	parts := orders.TryMapValues("geocode", func(_ context.Context, r textRecord) (string, error) { return r.Value, nil }).
		Split(func(_, v string) bool { return v == "" })
	parts[0].ToTopic(chooseTopic)
	parts[1].FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }, streams.As("by-word"), streams.OnFailure(retry.Stop())).
		Count("words", streams.EmitPerUpdate).
		Filter(func(_ string, n int64) bool { return n > 1 }, streams.As("frequent")).
		ToStream().To("counts")
	b.Table("customers", serde.String, serde.String).ToStream().Merge(orders).To("all")
	return b
}

func chooseTopic(k, _ string) string { return k }

// The files are what the methods return, checked by eye. UPDATE=1 writes them anew.
func TestDescribe(t *testing.T) {
	topology := build(t, shop())
	json, err := topology.DescribeJSON()
	require.NoError(t, err)
	for file, got := range map[string]string{
		"shop.txt": topology.Describe(), "shop.json": string(json), "shop.dot": topology.DescribeDOT(), "shop.mmd": topology.DescribeMermaid(),
	} {
		path := filepath.Join("testdata", file)
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, file)
	}
}
