// Package kit is what the example programs share beside the runtime: brokers to run on, a loader and a reader of topics.
package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/task"
)

// Flags are the flags that every example has.
type Flags struct {
	Brokers string
	App     string
	State   string
	Verbose bool
}

// Parse defines and reads the flags of an example whose application id is app by default.
func Parse(app string) *Flags {
	f := &Flags{}
	flag.StringVar(&f.Brokers, "brokers", "", "comma-separated brokers (host:port); without it an embedded broker is started")
	flag.StringVar(&f.App, "app", app, "application id: processes with the same one share the work")
	flag.StringVar(&f.State, "state", "", "state directory; without it a temporary one that is removed at the end")
	flag.BoolVar(&f.Verbose, "v", false, "print the runtime's log")
	flag.Parse()
	return f
}

// Run runs an example until it returns or is interrupted, and ends the process with 1 if it failed.
func Run(f func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := f(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Logger logs to the standard error stream if the flag says so, and nothing otherwise.
func (f *Flags) Logger() *zap.Logger {
	if !f.Verbose {
		return zap.NewNop()
	}
	log, err := zap.NewDevelopment()
	if err != nil {
		return zap.NewNop()
	}
	return log
}

// Open returns the brokers to use, an embedded one unless there is a flag, with the topics made, and a state directory. Close ends what
// it began.
func (f *Flags) Open(ctx context.Context, topics map[string]int32) (env *Env, err error) {
	env = &Env{StateDir: f.State}
	defer func() {
		if err != nil {
			env.Close()
		}
	}()
	if f.State == "" {
		if env.StateDir, err = os.MkdirTemp("", f.App+"-"); err != nil {
			return env, err
		}
		env.closers = append(env.closers, func() { _ = os.RemoveAll(env.StateDir) })
	}
	if f.Brokers != "" {
		env.Brokers = strings.Split(f.Brokers, ",")
	} else {
		b, err := broker.Start(broker.Options{})
		if err != nil {
			return env, err
		}
		env.Brokers = b.Addrs()
		env.closers = append(env.closers, b.Close)
	}
	if env.client, err = broker.NewClient(env.Brokers); err != nil {
		return env, err
	}
	env.closers = append(env.closers, env.client.Close)
	return env, env.create(ctx, topics)
}

// Env is what an example runs on.
type Env struct {
	Brokers  []string
	StateDir string
	client   *broker.Client
	closers  []func()
}

// Close ends what Open began, the last first.
func (e *Env) Close() {
	for i := len(e.closers) - 1; i >= 0; i-- {
		e.closers[i]()
	}
	e.closers = nil
}

func (e *Env) create(ctx context.Context, topics map[string]int32) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for topic, n := range topics {
		if err := e.client.CreateTopic(ctx, topic, n, nil); err != nil && !errors.Is(err, broker.ErrTopicExists) {
			return err
		}
	}
	return nil
}

// Load writes values without keys to a topic, in turns to its partitions, unless it has records already. It returns how many the topic has.
func (e *Env) Load(ctx context.Context, topic string, partitions int32, values []string) (int, error) {
	have, err := e.client.Consume(ctx, topic)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, records := range have {
		n += len(records)
	}
	if n > 0 {
		return n, nil
	}
	parts := make([][]task.OutRecord, partitions)
	now := time.Now().UnixMilli()
	for i, v := range values {
		p := i % int(partitions)
		parts[p] = append(parts[p], task.OutRecord{Value: []byte(v), Timestamp: now})
	}
	for p, records := range parts {
		if err := e.client.Produce(ctx, task.TopicPartition{Topic: topic, Partition: int32(p)}, records...); err != nil {
			return 0, err
		}
	}
	return len(values), nil
}

// Put writes one record.
func (e *Env) Put(ctx context.Context, topic string, partition int32, r task.OutRecord) error {
	return e.client.Produce(ctx, task.TopicPartition{Topic: topic, Partition: partition}, r)
}

// Record is a record as Follow gives it.
type Record struct {
	Key, Value []byte
	Headers    []task.Header
	Partition  int32
	Offset     int64
}

// Follow calls f with each record of a topic, from its beginning, until ctx ends.
func (e *Env) Follow(ctx context.Context, topic string, f func(Record)) error {
	k, err := kgo.NewClient(kgo.SeedBrokers(e.Brokers...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer k.Close()
	for ctx.Err() == nil {
		k.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			out := Record{Key: r.Key, Value: r.Value, Partition: r.Partition, Offset: r.Offset}
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, task.Header{Key: h.Key, Value: h.Value})
			}
			f(out)
		})
	}
	return nil
}
