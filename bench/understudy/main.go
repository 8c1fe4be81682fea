// Command understudy runs the benchmark's workloads on this repository's runtime. The command line is in ../README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("understudy: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: understudy map|count|wordcount --brokers B --app ID --state DIR ...")
	}
	fs := flag.NewFlagSet("understudy", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	app := fs.String("app", "bench-understudy", "application id")
	state := fs.String("state", "", "state directory")
	guarantee := fs.String("guarantee", "alos", "alos; eos is not there yet")
	threads := fs.Int("threads", 2, "GOMAXPROCS: each task has a goroutine of its own")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	cache := fs.Int64("cache", 64<<20, "bytes for uncommitted and cached rows, a quarter of the process's memory budget; 0 is the default budget")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if *guarantee != "alos" {
		return fmt.Errorf("--guarantee %s: there is no exactly-once yet; use alos", *guarantee)
	}
	builder, err := topology(args[0])
	if err != nil {
		return err
	}
	logger, err := zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(*threads)
	application, err := streams.New(builder, streams.Config{
		ApplicationID:  *app,
		Brokers:        strings.Split(*brokers, ","),
		StateDir:       *state,
		CommitInterval: time.Duration(*commit) * time.Millisecond,
		Memory:         4 * *cache,
		Log:            logger,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return application.Run(ctx)
}

func topology(workload string) (*streams.Builder, error) {
	b := streams.NewBuilder()
	switch workload {
	case "map":
		b.Stream("in", serde.String, serde.String).MapValues(upper).To("out")
	case "count":
		b.Stream("in", serde.String, serde.String).GroupByKey().Count("c").ToStream().To("out")
	case "wordcount":
		b.Stream("lines", serde.String, serde.String).
			FlatMapValues(func(line string) []string { return strings.Split(line, " ") }).
			GroupBy(func(_, word string) string { return word }).
			Count("c").
			ToStream().
			To("out")
	default:
		return nil, fmt.Errorf("no workload %q; there are map, count and wordcount", workload)
	}
	return b, nil
}

// upper is one pass into one new string: strings.ToUpper would measure itself.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	return string(b)
}
