// Command pipe copies records from one topic to another, in upper case, with their keys, headers and timestamps. It has no state, so it needs
// no state directory.
//
// Without flags it runs on an embedded broker and shows a few records; with -brokers it runs until it is interrupted.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// topology copies what is not empty. Keys stay bytes: they are passed on as they came.
func topology() *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.Bytes, serde.Bytes).
		Filter(func(_, value []byte) bool { return len(value) > 0 }).
		MapValues(bytes.ToUpper).
		To("out")
	return b
}

func main() {
	flags := kit.Parse("pipe")
	kit.Run(func(ctx context.Context) error { return run(ctx, flags) })
}

func run(ctx context.Context, flags *kit.Flags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	env, err := flags.Open(ctx, map[string]int32{"in": 2, "out": 2})
	if err != nil {
		return err
	}
	defer env.Close()
	app, err := streams.New(topology(), streams.Config{ApplicationID: flags.App, Brokers: env.Brokers, Log: flags.Logger()})
	if err != nil {
		return err
	}
	if flags.Brokers != "" {
		fmt.Println("copying from topic in to topic out; interrupt to end")
		return app.Run(ctx)
	}
	return show(ctx, stop, env, app)
}

// show sends a few records through and prints what comes out.
func show(ctx context.Context, stop func(), env *kit.Env, app *streams.App) error {
	sent := []task.OutRecord{
		{Key: []byte("a"), Value: []byte("first"), Headers: []task.Header{{Key: "trace", Value: []byte("42")}}},
		{Key: []byte("b"), Value: []byte("")},
		{Value: []byte("without a key")},
	}
	for _, r := range sent {
		r.Timestamp = time.Now().UnixMilli()
		if err := env.Put(ctx, "in", 0, r); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	seen := 0
	err := env.Follow(ctx, "out", func(r kit.Record) {
		fmt.Fprintf(os.Stdout, "key %q  value %q  headers %v\n", r.Key, r.Value, r.Headers)
		if seen++; seen == len(sent)-1 { // the empty one is filtered
			stop()
		}
	})
	return errors.Join(err, <-ended)
}
