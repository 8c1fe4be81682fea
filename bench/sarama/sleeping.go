package main

import (
	"context"
	"errors"
	"flag"
	"hash/fnv"
	"log"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/bench/work"
)

// sleeping is the failure benchmark's workload of that name: a serial loop, or goroutines that share the records of a partition, by key or as
// they come. The offset that is marked is that of the first record that is not done.
func sleeping(args []string) error {
	fs := flag.NewFlagSet("sarama sleeping", flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:9092", "bootstrap brokers, comma-separated")
	in := fs.String("in", "in", "input topic")
	app := fs.String("app", "bench-sarama", "consumer group")
	fs.String("state", "", "ignored: there is no state")
	threads := fs.Int("threads", 2, "GOMAXPROCS")
	commit := fs.Int("commit-ms", 1000, "commit interval")
	order := fs.String("order", "none", "of the records: all, key or none")
	workers := fs.Int("workers", 1, "goroutines")
	alone := fs.Int("alone", 1, "goroutines that make the same sleeps afterwards, without Kafka")
	records := fs.Int("records", 0, "all there are")
	if err := fs.Parse(args); err != nil {
		return err
	}
	runtime.GOMAXPROCS(*threads)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	sleeper := work.NewSleeper(*records)
	group, err := sarama.NewConsumerGroup(strings.Split(*brokers, ","), *app, config(*app, time.Duration(*commit)*time.Millisecond))
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for err := range group.Errors() {
			log.Print("consumer: ", err)
		}
	})
	running.Go(func() {
		select {
		case <-sleeper.Done:
			sleeper.Report(*alone)
		case <-ctx.Done():
		}
	})
	for err = nil; ctx.Err() == nil && err == nil; {
		err = group.Consume(ctx, []string{*in}, pool{sleeper, *order, *workers})
	}
	stop()
	err = errors.Join(err, group.Close())
	running.Wait()
	return err
}

// pool is a handler whose goroutines make the calls.
type pool struct {
	sleeper *work.Sleeper
	order   string
	workers int
}

func (pool) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (pool) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (p pool) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	if p.order == "all" {
		for r := range claim.Messages() {
			if err := p.sleeper.Call(string(r.Key), r.Value); err != nil {
				return err
			}
			session.MarkMessage(r, "")
		}
		return nil
	}
	var all sync.WaitGroup
	defer all.Wait()
	lanes := make([]chan *sarama.ConsumerMessage, p.workers)
	shared := make(chan *sarama.ConsumerMessage)
	low := &lowWater{next: claim.InitialOffset(), done: map[int64]bool{}}
	for i := range lanes {
		lanes[i] = shared
		if p.order == "key" {
			lanes[i] = make(chan *sarama.ConsumerMessage, 1024)
		}
		all.Go(func() {
			for r := range lanes[i] {
				if err := p.sleeper.Call(string(r.Key), r.Value); err != nil {
					log.Print(err) // the offset stays unmarked
					continue
				}
				session.MarkOffset(r.Topic, r.Partition, low.finish(r.Offset), "")
			}
		})
	}
	for r := range claim.Messages() {
		h := fnv.New32a()
		h.Write(r.Key)
		lanes[h.Sum32()%uint32(len(lanes))] <- r
	}
	close(shared)
	if p.order == "key" {
		for _, lane := range lanes {
			close(lane)
		}
	}
	return nil
}

// lowWater is the first offset of a partition that is not done. Offsets have no gaps here.
type lowWater struct {
	mu   sync.Mutex
	next int64
	done map[int64]bool // at or above next
}

func (l *lowWater) finish(offset int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next < 0 { // nothing was committed: the first offset is 0
		l.next = 0
	}
	l.done[offset] = true
	for l.done[l.next] {
		delete(l.done, l.next)
		l.next++
	}
	return l.next
}
