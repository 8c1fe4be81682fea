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
	"io"
	"os"
	"strings"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
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
	kit.Run(func(ctx context.Context) error { return run(ctx, flags, os.Stdout) })
}

func run(ctx context.Context, flags *kit.Flags, out io.Writer) error {
	env, err := flags.Open(ctx, map[string]int32{"in": 2, "out": 2})
	if err != nil {
		return err
	}
	defer env.Close()
	app, err := streams.New(topology(), streams.Config{ApplicationID: flags.App, Brokers: env.Brokers, Log: flags.Logger()})
	if err != nil {
		return err
	}
	if !flags.Embedded() {
		fmt.Fprintln(out, "copying from topic in to topic out; interrupt to end")
		return app.Run(ctx)
	}
	return show(ctx, env, app, out)
}

// show sends a few records through and prints what comes out.
func show(ctx context.Context, env *kit.Env, app *streams.App, out io.Writer) error {
	sent := []kit.Record{
		{Key: []byte("a"), Value: []byte("first"), Headers: []streams.Header{{Key: "trace", Value: []byte("42")}}},
		{Key: []byte("b"), Value: []byte("")},
		{Value: []byte("without a key")},
	}
	for _, r := range sent {
		if err := env.Put(ctx, "in", 0, r); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { defer stop(); ended <- app.Run(ctx) }()
	seen := 0
	err := env.Follow(ctx, "out", func(r kit.Record) {
		fmt.Fprintln(out, line(r))
		if seen++; seen == len(sent)-1 { // the empty one is filtered
			stop()
		}
	})
	stop()
	return errors.Join(err, <-ended)
}

// line shows a record.
func line(r kit.Record) string {
	var b strings.Builder
	if r.Key == nil {
		b.WriteString("no key")
	} else {
		fmt.Fprintf(&b, "key %q", r.Key)
	}
	fmt.Fprintf(&b, ", value %q", r.Value)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, ", header %s=%s", h.Key, h.Value)
	}
	return b.String()
}
