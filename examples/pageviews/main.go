// Command pageviews adds up what the users of a site have seen: JSON events in, a JSON total per user out.
//
// Without flags it runs on an embedded broker with some events; with -brokers it runs until it is interrupted.
package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// View is one event: a user has looked at a page for some time.
type View struct {
	User    string `json:"user"`
	Page    string `json:"page"`
	Seconds int    `json:"seconds"`
}

// Total is what one user has seen so far.
type Total struct {
	Views   int    `json:"views"`
	Seconds int    `json:"seconds"`
	Last    string `json:"last"`
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

func add(_ string, v View, t Total) Total {
	t.Views++
	t.Seconds += v.Seconds
	t.Last = v.Page
	return t
}

func main() {
	flags := kit.Parse("pageviews")
	kit.Run(func(ctx context.Context) error { return run(ctx, flags) })
}

func run(ctx context.Context, flags *kit.Flags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	env, err := flags.Open(ctx, map[string]int32{"views": 2, "totals": 2})
	if err != nil {
		return err
	}
	defer env.Close()
	app, err := streams.New(topology(), streams.Config{
		ApplicationID: flags.App, Brokers: env.Brokers, StateDir: env.StateDir, CommitInterval: 200 * time.Millisecond, Log: flags.Logger(),
	})
	if err != nil {
		return err
	}
	if flags.Brokers != "" {
		fmt.Println("adding up topic views into topic totals; interrupt to end")
		return app.Run(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	totals, err := collect(ctx, stop, env, events())
	for _, user := range []string{"ada", "grace"} {
		fmt.Printf("%-6s %+v\n", user, totals[user])
	}
	return errors.Join(err, <-ended)
}

// events are some page views.
func events() []View {
	return []View{{"ada", "/", 5}, {"grace", "/docs", 40}, {"ada", "/docs", 30}, {"ada", "/pricing", 10}, {"grace", "/", 2}}
}

// collect sends the events in and reads totals until all of them are in.
func collect(ctx context.Context, stop func(), env *kit.Env, views []View) (map[string]Total, error) {
	for i, v := range views {
		value, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if err := env.Put(ctx, "views", int32(i%2), task.OutRecord{Value: value, Timestamp: time.Now().UnixMilli()}); err != nil {
			return nil, err
		}
	}
	totals := map[string]Total{}
	var bad error
	err := env.Follow(ctx, "totals", func(r kit.Record) {
		var t Total
		if err := json.Unmarshal(r.Value, &t); err != nil {
			bad = errors.Join(bad, err)
		}
		totals[string(r.Key)] = t
		n := 0
		for _, t := range totals {
			n += t.Views
		}
		if n == len(views) || bad != nil {
			stop()
		}
	})
	return totals, errors.Join(err, bad)
}
