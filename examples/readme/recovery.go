package main

import (
	"context"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func lights() *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("signals", serde.String, serde.String, streams.OnFailure(retry.Parallel()), streams.RecoverParallel).
		GroupByKey().
		Count("signals-by-crossing").
		ToStream().
		To("counts")
	return b
}

func show(ctx context.Context, brokers ...string) error {
	app, err := streams.New(lights(), streams.Config{ApplicationID: "lights", Brokers: brokers, StateDir: "state", RecoverAbove: 1_000})
	if err != nil {
		return err // a *RecoveryError says which step forbids it, and what to do
	}
	return app.Run(ctx)
}
