// Command franz is the benchmark's map workload as a hand-written franz-go loop: consume, upper-case in place, produce, commit. It has no
// state and no topology, so it is what the client library alone costs. The command line is in ../README.md.
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("franz: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "map" {
		return fmt.Errorf("usage: franz map --brokers B --app ID ...; there is no other workload")
	}
	fs := flag.NewFlagSet("franz", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	in := fs.String("in", "in", "input topic")
	app := fs.String("app", "bench-franz", "consumer group")
	fs.String("state", "", "ignored: there is no state")
	guarantee := fs.String("guarantee", "alos", "alos or eos")
	threads := fs.Int("threads", 2, "GOMAXPROCS")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	fs.Int64("cache", 0, "ignored: there is no state")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	runtime.GOMAXPROCS(*threads)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	opts := options(strings.Split(*brokers, ","), *in, *app)
	every := time.Duration(*commit) * time.Millisecond
	if *guarantee == "eos" {
		return exactlyOnce(ctx, append(opts, kgo.TransactionalID(*app), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets()), every)
	}
	return atLeastOnce(ctx, opts, every)
}

func options(brokers []string, in, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxPartitionBytes(4 << 20),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.ProducerBatchMaxBytes(256 << 10),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(100_000),
	}
}

// poll is the most records taken at once.
const poll = 10_000

func atLeastOnce(ctx context.Context, opts []kgo.Opt, every time.Duration) error {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	var out sender
	for ctx.Err() == nil {
		for due := time.Now().Add(every); time.Now().Before(due) && ctx.Err() == nil; {
			wait, cancel := context.WithDeadline(ctx, due)
			client.PollRecords(wait, poll).EachRecord(func(r *kgo.Record) { client.Produce(context.Background(), upper(r), out.sent) })
			cancel()
		}
		last := context.WithoutCancel(ctx) // the last round is committed too
		if err := client.Flush(last); err != nil {
			return err
		}
		if err := out.err(); err != nil {
			return err
		}
		if err := client.CommitUncommittedOffsets(last); err != nil {
			return err
		}
	}
	return nil
}

func exactlyOnce(ctx context.Context, opts []kgo.Opt, every time.Duration) error {
	session, err := kgo.NewGroupTransactSession(opts...)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		if err := session.Begin(); err != nil {
			return err
		}
		var out sender
		for due := time.Now().Add(every); time.Now().Before(due) && ctx.Err() == nil; {
			wait, cancel := context.WithDeadline(ctx, due)
			session.PollRecords(wait, poll).EachRecord(func(r *kgo.Record) { session.Produce(context.Background(), upper(r), out.sent) })
			cancel()
		}
		if _, err := session.End(context.WithoutCancel(ctx), kgo.TransactionEndTry(out.err() == nil)); err != nil {
			return err
		}
	}
	return nil
}

// upper sends the record on as it came, its value changed in place.
func upper(r *kgo.Record) *kgo.Record {
	for i, c := range r.Value {
		if 'a' <= c && c <= 'z' {
			r.Value[i] = c - ('a' - 'A')
		}
	}
	r.Topic = "out"
	return r
}

// sender keeps the first error of what was produced; sent is called from the client's goroutines.
type sender struct{ first atomic.Pointer[error] }

func (s *sender) sent(_ *kgo.Record, err error) {
	if err != nil {
		s.first.CompareAndSwap(nil, &err)
	}
}

func (s *sender) err() error {
	if err := s.first.Load(); err != nil {
		return *err
	}
	return nil
}
