// Command ledger books transfers from a topic into an SQL database, each exactly once, whatever dies when: the offset up to which the topic is
// booked is a row of the same database, and moves in the transaction that books.
//
// Without flags it runs on an embedded broker, books what it has put there and shows the balances; with -brokers it runs until it is
// interrupted. Several processes with the same -db share the work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
)

const partitions = 4

func main() {
	var db string
	var n int
	flags := kit.Parse("ledger", func(set *flag.FlagSet) {
		set.StringVar(&db, "db", "", "database file, the same for all processes of an application id; without it ledger.db in the state directory")
		set.IntVar(&n, "n", 20000, "how many transfers are put into the topic when it is made")
	})
	kit.Run(func(ctx context.Context) error { return run(ctx, flags, db, n, os.Stdout) })
}

func run(ctx context.Context, flags *kit.Flags, db string, n int, out io.Writer) (err error) {
	env, err := flags.Open(ctx, map[string]int32{topic: partitions})
	if err != nil {
		return err
	}
	defer env.Close()
	if err := env.Load(ctx, topic, partitions, transfers(n)); err != nil {
		return err
	}
	if db == "" {
		db = filepath.Join(env.StateDir, "ledger.db")
	}
	b, err := openBooks(db, flags.App)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if !flags.Embedded() {
		fmt.Fprintf(out, "booking topic %s into %s; interrupt to end\n", topic, db)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	left := n
	err = b.work(ctx, streams.ConsumerConfig{Brokers: env.Brokers, Log: flags.Logger()}, func(booked int) {
		if left -= booked; left == 0 && flags.Embedded() {
			stop()
		}
	})
	return errors.Join(err, b.report(out))
}

// work books until the context ends.
func (b *books) work(ctx context.Context, c streams.ConsumerConfig, booked func(n int)) error {
	consumer, err := b.consumer(c)
	if err != nil {
		return err
	}
	err = b.follow(ctx, consumer, booked)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	return errors.Join(err, consumer.Close(closing))
}

// report shows what has come of it.
func (b *books) report(out io.Writer) error {
	ctx := context.Background()
	booked, err := b.Audit(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d transfers are booked, each once; the sum of all balances is what it was, nothing:\n", booked)
	return b.print(ctx, out)
}
