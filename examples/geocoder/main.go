// Command geocoder looks addresses up at a service that fails, and shows what becomes of the records that fail.
//
// The service is a part of the program: it takes its time, fails now and then, does not know some addresses, and is down altogether when Enter is
// pressed, until it is pressed again. -mode says what the application does about it.
//
// Without flags it runs on an embedded broker. With -brokers it runs on a real one until it is interrupted.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
)

const partitions = 2

// order is what the command line asks for.
type order struct {
	mode    string
	workers int
	count   int
	rate    int
	service service
}

func main() {
	o := &order{mode: "key-ordered", workers: 8, count: 10_000, rate: 500, service: service{Latency: 5 * time.Millisecond, Fails: 0.1, Unknown: 0.005}}
	flags := kit.Parse("geocoder", o.define)
	o.service.toggled = enters(os.Stdin)
	kit.Run(func(ctx context.Context) error { return run(ctx, flags, o, newView(os.Stdout)) })
}

func (o *order) define(set *flag.FlagSet) {
	set.StringVar(&o.mode, "mode", o.mode, "what becomes of a record that fails: stop, ordered, key-ordered or parallel")
	set.IntVar(&o.workers, "workers", o.workers, "lookups at a time in each of the 2 tasks, in the modes key-ordered and parallel")
	set.IntVar(&o.count, "n", o.count, "addresses")
	set.IntVar(&o.rate, "rate", o.rate, "addresses a second")
	set.DurationVar(&o.service.Latency, "latency", o.service.Latency, "what a lookup takes, on average")
	set.Float64Var(&o.service.Fails, "fail", o.service.Fails, "part of the lookups that fail, and may succeed the next time")
	set.Float64Var(&o.service.Unknown, "unknown", o.service.Unknown, "part of the addresses that the service does not know: their records are dead-lettered")
}

// run feeds the application and shows how it gets on until every address is located or dead-lettered.
func run(ctx context.Context, flags *kit.Flags, o *order, v *view) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := flags.App + "-places"
	builder, err := topology(o, out)
	if err != nil {
		return err
	}
	env, err := flags.Open(ctx, map[string]int32{"addresses": partitions, out: partitions})
	if err != nil {
		return err
	}
	defer env.Close()
	app, err := streams.New(builder, streams.Config{
		ApplicationID: flags.App, Brokers: env.Brokers, StateDir: env.StateDir, CommitInterval: 200 * time.Millisecond,
		Standbys: flags.Standbys, Log: flags.Logger(),
	})
	if err != nil {
		return err
	}
	located := &places{}
	ended := make(chan error, 3)
	go func() { defer stop(); ended <- app.Run(ctx) }()
	go func() { ended <- feed(ctx, env, o) }()
	go func() { ended <- env.Follow(ctx, out, located.take) }()
	err = watch(ctx, v, o, app, located, flags.Embedded())
	stop()
	if failed := errors.Join(<-ended, <-ended, <-ended); failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return err
}

// watch shows a line a second. On the embedded broker it returns when every address has come to its end; elsewhere other processes may have a
// share of them.
func watch(ctx context.Context, v *view, o *order, app *streams.App, located *places, whole bool) error {
	began, tasks := time.Now(), said{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			s := tasks.look(app, located, &o.service)
			v.show(now.Sub(began), s)
			if whole && s.located+int(s.deadLetters) >= o.count {
				v.end()
				return nil
			}
		}
	}
}

// feed writes addresses at the rate that is asked for.
func feed(ctx context.Context, env *kit.Env, o *order) error {
	const beat = 20 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	due := 0.0
	for i := 0; i < o.count; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due += float64(o.rate) * beat.Seconds(); due >= 1 && i < o.count; due-- {
			street, address := addressOf(i)
			// All of a street are in one partition: they have one key.
			if err := env.Put(ctx, "addresses", int32(i%len(streets)%partitions), kit.Record{Key: []byte(street), Value: []byte(address)}); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("write an address: %w", err)
			}
			i++
		}
	}
	return nil
}

// places counts the addresses that were located, each once.
type places struct {
	seen map[string]bool // by one goroutine
	n    atomic.Int64
}

func (p *places) take(r kit.Record) {
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	if v := string(r.Value); !p.seen[v] {
		p.seen[v] = true
		p.n.Add(1)
	}
}

// enters sends something each time that Enter is pressed.
func enters(in io.Reader) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		for s := bufio.NewScanner(in); s.Scan(); {
			c <- struct{}{}
		}
	}()
	return c
}
