// Command sarama is the benchmark's map workload as it is written by hand on sarama: a consumer group, an asynchronous producer, an offset marked
// when its output is acknowledged. It has no state and no topology. The command line is in ../README.md.
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
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("sarama: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "sleeping" {
		return sleeping(args[1:])
	}
	if len(args) == 0 || args[0] != "map" {
		return fmt.Errorf("usage: sarama map|sleeping --brokers B --app ID ...; there are no other workloads")
	}
	fs := flag.NewFlagSet("sarama", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	in := fs.String("in", "in", "input topic")
	app := fs.String("app", "bench-sarama", "consumer group")
	fs.String("state", "", "ignored: there is no state")
	guarantee := fs.String("guarantee", "alos", "alos is all there is")
	threads := fs.Int("threads", 2, "GOMAXPROCS")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	fs.Int64("cache", 0, "ignored: there is no state")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if *guarantee != "alos" {
		return fmt.Errorf("--guarantee %s: a group's offsets are not part of a producer's transaction here", *guarantee)
	}
	runtime.GOMAXPROCS(*threads)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return loop(ctx, strings.Split(*brokers, ","), *in, *app, config(*app, time.Duration(*commit)*time.Millisecond))
}

// config is safe, and batches as the other programs do.
func config(id string, commit time.Duration) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V3_9_1_0
	c.ClientID = id
	c.ChannelBufferSize = 1024
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

func loop(ctx context.Context, brokers []string, in, app string, config *sarama.Config) error {
	producer, err := sarama.NewAsyncProducer(brokers, config)
	if err != nil {
		return err
	}
	group, err := sarama.NewConsumerGroup(brokers, app, config)
	if err != nil {
		return errors.Join(err, producer.Close())
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	running.Go(func() {
		for err := range group.Errors() {
			log.Print("consumer: ", err)
		}
	})
	running.Go(func() {
		for err := range producer.Errors() {
			err.Msg.Metadata.(origin).done.Done() // the offset stays unmarked: the record comes again
			fail(err)
		}
	})
	running.Go(func() {
		for m := range producer.Successes() {
			from := m.Metadata.(origin)
			from.session.MarkOffset(in, from.partition, from.offset+1, "")
			from.done.Done()
		}
	})
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{in}, mapper{producer}); err != nil {
			fail(err)
		}
	}
	err = errors.Join(group.Close(), producer.Close())
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// origin is the input that a produced record came from.
type origin struct {
	session   sarama.ConsumerGroupSession
	partition int32
	offset    int64
	done      *sync.WaitGroup
}

type mapper struct{ producer sarama.AsyncProducer }

func (mapper) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (mapper) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m mapper) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var onTheWay sync.WaitGroup
	defer onTheWay.Wait() // the session's last commit covers what was sent
	for {
		select {
		case r, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			onTheWay.Add(1)
			m.producer.Input() <- &sarama.ProducerMessage{
				Topic: "out", Key: sarama.ByteEncoder(r.Key), Value: sarama.ByteEncoder(upper(r.Value)),
				Metadata: origin{session, r.Partition, r.Offset, &onTheWay},
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// upper is in place, as in the other hand-written loop.
func upper(value []byte) []byte {
	for i, c := range value {
		if 'a' <= c && c <= 'z' {
			value[i] = c - ('a' - 'A')
		}
	}
	return value
}
