package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/understudy-streams/understudy/internal/broker"
)

// Env is what an example runs on: brokers and a state directory.
type Env struct {
	Brokers  []string
	StateDir string
	client   *broker.Client
	made     map[string]bool // topics that this process has created
	closers  []func()
}

// Open returns the brokers to use, an embedded one unless there is a flag, with the topics made, and a state directory. Close ends what
// it began.
func (f *Flags) Open(ctx context.Context, topics map[string]int32) (*Env, error) {
	env := &Env{StateDir: f.State, made: map[string]bool{}}
	if err := env.open(ctx, f, topics); err != nil {
		env.Close()
		return nil, err
	}
	return env, nil
}

func (e *Env) open(ctx context.Context, f *Flags, topics map[string]int32) (err error) {
	if e.StateDir == "" {
		if e.StateDir, err = os.MkdirTemp("", f.App+"-"); err != nil {
			return err
		}
		e.closers = append(e.closers, func() { _ = os.RemoveAll(e.StateDir) })
	}
	if e.Brokers = f.brokers(); f.Embedded() {
		b, err := broker.Start(broker.Options{})
		if err != nil {
			return err
		}
		e.Brokers = b.Addrs()
		e.closers = append(e.closers, b.Close)
	}
	if e.client, err = broker.NewClient(e.Brokers); err != nil {
		return err
	}
	e.closers = append(e.closers, e.client.Close)
	return e.create(ctx, topics)
}

// Close ends what Open began, the last first. It may be called again.
func (e *Env) Close() {
	for i := len(e.closers) - 1; i >= 0; i-- {
		e.closers[i]()
	}
	e.closers = nil
}

// patience bounds the waits for brokers and for another process that loads.
const patience = 30 * time.Second

func (e *Env) create(ctx context.Context, topics map[string]int32) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for topic, n := range topics {
		switch err := e.client.CreateTopic(ctx, topic, n, nil); {
		case err == nil:
			e.made[topic] = true
		case !errors.Is(err, broker.ErrTopicExists):
			return fmt.Errorf("at brokers %v (make kafka starts one): %w", e.Brokers, err)
		}
	}
	return nil
}
