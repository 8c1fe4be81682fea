// Command goka runs the benchmark's workloads on github.com/lovoo/goka. The command line is in ../README.md.
//
// It is a module of its own, so that goka is built with the sarama version it asks for.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"
	"github.com/lovoo/goka/storage"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("goka: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: goka map|count|wordcount|keep --brokers B --app ID --state DIR ...")
	}
	fs := flag.NewFlagSet("goka", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	in := fs.String("in", "in", "input topic")
	app := fs.String("app", "bench-goka", "group, and prefix of the internal topics")
	state := fs.String("state", "", "state directory")
	guarantee := fs.String("guarantee", "alos", "alos is all there is")
	threads := fs.Int("threads", 2, "GOMAXPROCS: goka runs a goroutine per partition")
	commit := fs.Int("commit-ms", 1000, "interval of offset commits")
	fs.Int64("cache", 0, "ignored: there is no record cache, every update is written through")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if *guarantee != "alos" {
		return fmt.Errorf("--guarantee %s: goka has at-least-once only", *guarantee)
	}
	goka.SetLoopSuffix("-repartition") // the harness finds internal topics by Kafka Streams' names; a graph keeps those it was made with
	goka.SetTableSuffix("-changelog")
	graph, err := graph(args[0], goka.Stream(*in), goka.Group(*app))
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(*threads)
	config := clientConfig(*app, time.Duration(*commit)*time.Millisecond)
	goka.ReplaceGlobalConfig(config)

	topics := goka.NewTopicManagerConfig()
	topics.Table.Replication, topics.Stream.Replication = 1, 1 // the default of 2 needs two brokers
	topics.Stream.Retention = 24 * time.Hour
	opts := []goka.ProcessorOption{
		goka.WithTopicManagerBuilder(goka.TopicManagerBuilderWithTopicManagerConfig(topics)),
		goka.WithStorageBuilder(storage.DefaultBuilder(*state)),
		goka.WithPartitionChannelSize(config.ChannelBufferSize),
		goka.WithHasher(func() hash.Hash32 { return new(murmur2) }), // as the input is partitioned, and as Java does
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return supervise(ctx, func() error {
		processor, err := goka.NewProcessor(strings.Split(*brokers, ","), graph, opts...)
		if err != nil {
			return err
		}
		go announce(processor)
		return processor.Run(ctx)
	})
}

// announce says, in the form that the harness reads, when the tables have been restored, and from how many records.
func announce(p *goka.Processor) {
	if p.WaitForReady() != nil {
		return
	}
	now := time.Now()
	var records uint
	var begin, end time.Time
	for _, part := range p.Stats().Group {
		t := part.TableStats
		if t == nil || t.Recovery == nil || t.Input.Count == 0 {
			continue
		}
		records += t.Input.Count
		if at := t.Recovery.StartTime; begin.IsZero() || at.Before(begin) {
			begin = at
		}
		if at := t.Recovery.RecoveryTime; at.After(end) {
			end = at
		}
	}
	fmt.Printf("RUNNING at=%d restored=%d restore_ms=%d\n", now.UnixMilli(), records, end.Sub(begin).Milliseconds())
}

// supervise starts a processor that fails anew, as whatever runs the program would: goka gives up where the table topic that it has just created has
// no leader yet.
func supervise(ctx context.Context, process func() error) error {
	for attempt := 1; ; attempt++ {
		err := process()
		if err == nil || ctx.Err() != nil || attempt == 3 {
			return err
		}
		log.Printf("attempt %d: %v", attempt, err)
		time.Sleep(time.Second)
	}
}

// clientConfig is what a user who reads sarama's documentation ends with: safe, and batching as the other programs do.
func clientConfig(id string, commit time.Duration) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V3_9_1_0
	c.ClientID = id
	c.ChannelBufferSize = 1024
	c.Consumer.Group.Rebalance.Strategy = goka.CopartitioningStrategy
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Interval = commit
	c.Consumer.Return.Errors = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1 // sarama demands it of an idempotent producer
	c.Producer.Retry.Max = 10
	c.Producer.Flush.Frequency = 5 * time.Millisecond
	c.Producer.Flush.Bytes = 512 << 10
	c.Producer.Return.Successes = true
	c.Producer.Return.Errors = true
	return c
}
