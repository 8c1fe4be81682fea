// Command readme is the code of the README, so that it is compiled and tested; a test here compares the two.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func topology() *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("lines", serde.String, serde.String).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts").
		ToStream().
		To("counts")
	return b
}

func run(ctx context.Context, brokers ...string) error {
	app, err := streams.New(topology(), streams.Config{ApplicationID: "words", Brokers: brokers, StateDir: "state"})
	if err != nil {
		return err
	}
	return app.Run(ctx) // until ctx ends; then it commits and leaves the group
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, "127.0.0.1:29092")
	stop()
	if err != nil {
		log.Fatal(err)
	}
}
