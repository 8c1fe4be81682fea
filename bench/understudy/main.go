// Command understudy runs the benchmark's workloads on this repository's runtime. The command line is in ../README.md.
package main

import (
	"context"
	"errors"
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
		return fmt.Errorf("usage: understudy map|count|wordcount|keep|tally|failing|sleeping|recover --brokers B --app ID --state DIR ...")
	}
	if args[0] == "failing" || args[0] == "sleeping" || args[0] == "recover" {
		return failing(args)
	}
	fs := flag.NewFlagSet("understudy", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	in := fs.String("in", "in", "input topic")
	out := fs.String("out", "out", "tally: output topic")
	app := fs.String("app", "bench-understudy", "application id")
	state := fs.String("state", "", "state directory")
	guarantee := fs.String("guarantee", "alos", "alos; eos is not there yet")
	threads := fs.Int("threads", 2, "GOMAXPROCS: each task has a goroutine of its own")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	cache := fs.Int64("cache", 64<<20, "bytes for uncommitted and cached rows, 3/16 of the memory budget; 0: each update is put out, and the budget is the default")
	instance := fs.String("instance", "a", "tally: the name of this process in what it puts out")
	clientID := fs.String("client-id", "", "how the broker knows this process; empty: the application id")
	standbys := fs.Int("standbys", 0, "standby copies of each task")
	session := fs.Int("session-ms", 0, "session timeout; 0: the default")
	profile := fs.String("profile", "", "write PREFIX.cpu and PREFIX.heap between SIGUSR1 and SIGUSR2")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if *guarantee != "alos" {
		return fmt.Errorf("--guarantee %s: there is no exactly-once yet; use alos", *guarantee)
	}
	emission := streams.EmitAtCommit
	if *cache == 0 {
		emission = streams.EmitPerUpdate
	}
	says := new(restores).listener()
	var builder *streams.Builder
	var err error
	if args[0] == "tally" {
		builder, says = tally(*in, *out, *instance), sayAll(says)
	} else if builder, err = topology(args[0], *in, emission); err != nil {
		return err
	}
	logger, err := zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(*threads)
	closeProfile := func() error { return nil }
	if *profile != "" {
		closeProfile = newProfiler(*profile).close
	}
	application, err := streams.New(builder, streams.Config{
		ApplicationID:  *app,
		Brokers:        strings.Split(*brokers, ","),
		StateDir:       *state,
		CommitInterval: time.Duration(*commit) * time.Millisecond,
		Memory:         *cache * 16 / 3,
		Log:            logger,
		ClientID:       *clientID,
		Session:        time.Duration(*session) * time.Millisecond,
		Standbys:       *standbys,
		Listener:       says,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if args[0] == "tally" {
		onSignal(func() { _ = application.Drain(ctx) }) // Run returns what went wrong
	}
	return errors.Join(application.Run(ctx), closeProfile())
}
