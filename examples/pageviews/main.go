// Command pageviews adds up what the users of a site have seen: JSON events in, a JSON total per user out.
//
// Without flags it runs on an embedded broker with some events; with -brokers it runs until it is interrupted.
package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// View is one event: a user has looked at a page for some time.
type View struct {
	User    string `json:"user"`
	Page    string `json:"page"`
	Seconds int    `json:"seconds"`
}

// Total is what one user has seen so far.
type Total struct {
	Views   int  `json:"views"`
	Seconds int  `json:"seconds"`
	Longest View `json:"longest"`
}

// topology keeps a total per user. Events come without a key, so they are regrouped by user through a topic of the application's own.
func topology() *streams.Builder {
	b := streams.NewBuilder()
	b.Register(serde.JSON[View]())
	b.Register(serde.JSON[Total]())
	b.Stream("views", serde.Bytes, serde.JSON[View]()).
		GroupBy(func(_ []byte, v View) string { return v.User }).
		Aggregate("totals", func() Total { return Total{} }, add).
		ToStream().
		To("totals")
	return b
}

// add gives the same total in whatever order the views come: those of different partitions come in any.
func add(_ string, v View, t Total) Total {
	t.Views++
	t.Seconds += v.Seconds
	if v.Seconds > t.Longest.Seconds {
		t.Longest = v
	}
	return t
}

func main() {
	flags := kit.Parse("pageviews")
	kit.Run(func(ctx context.Context) error { return run(ctx, flags, os.Stdout) })
}

func run(ctx context.Context, flags *kit.Flags, out io.Writer) error {
	env, err := flags.Open(ctx, map[string]int32{"views": 2, "totals": 2})
	if err != nil {
		return err
	}
	defer env.Close()
	app, err := streams.New(topology(), streams.Config{
		ApplicationID: flags.App, Brokers: env.Brokers, StateDir: env.StateDir, CommitInterval: 200 * time.Millisecond,
		Standbys: flags.Standbys, Log: flags.Logger(),
	})
	if err != nil {
		return err
	}
	if !flags.Embedded() {
		fmt.Fprintln(out, "adding up topic views into topic totals; interrupt to end")
		return app.Run(ctx)
	}
	return show(ctx, env, app, out)
}

// views are some events.
var views = []View{{"ada", "/", 5}, {"grace", "/docs", 40}, {"ada", "/docs", 30}, {"ada", "/pricing", 10}, {"grace", "/", 2}}

// show sends the views through and prints the totals.
func show(ctx context.Context, env *kit.Env, app *streams.App, out io.Writer) error {
	if err := send(ctx, env); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { defer stop(); ended <- app.Run(ctx) }()
	totals, err := collect(ctx, stop, env)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	for _, user := range []string{"ada", "grace"} {
		t := totals[user]
		fmt.Fprintf(out, "%-6s %d views, %d s, longest on %s\n", user, t.Views, t.Seconds, t.Longest.Page)
	}
	return nil
}

func send(ctx context.Context, env *kit.Env) error {
	for i, v := range views {
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := env.Put(ctx, "views", int32(i%2), kit.Record{Value: value}); err != nil {
			return err
		}
	}
	return nil
}

// collect reads totals until all views are in them, and calls stop.
func collect(ctx context.Context, stop func(), env *kit.Env) (map[string]Total, error) {
	totals := map[string]Total{}
	var bad error
	err := env.Follow(ctx, "totals", func(r kit.Record) {
		var t Total
		bad = errors.Join(bad, json.Unmarshal(r.Value, &t))
		totals[string(r.Key)] = t
		seen := 0
		for _, t := range totals {
			seen += t.Views
		}
		if seen == len(views) || bad != nil {
			stop()
		}
	})
	return totals, errors.Join(err, bad)
}
