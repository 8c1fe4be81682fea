package virtual

import (
	"context"
	"errors"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// Crew are the workers of one task, without goroutines: items are run one after the other, each on the nodes of the next worker.
type Crew struct {
	cfg  task.Config
	most int
	ask  func(task.Read) task.Answer
	all  []*task.Worker
	turn int
}

// NewCrew returns the workers of a task whose policy has several, nil for others. ask lets the task answer what they read of its stores.
func NewCrew(c task.Config, ask func(task.Read) task.Answer) *Crew {
	n := c.Spec.Failure.Settings().Workers
	if n < 2 || !c.Workers {
		return nil
	}
	return &Crew{cfg: c, most: n, ask: ask}
}

// Run runs an item. The error says that no worker can be made.
func (c *Crew) Run(now time.Time, it *task.Item) (*task.Result, error) {
	w, err := c.next()
	if err != nil {
		return nil, err
	}
	return w.Run(c.context(), now, it), nil
}

func (c *Crew) next() (*task.Worker, error) {
	if len(c.all) < c.most {
		w, err := task.NewWorker(c.cfg, c.ask)
		if err != nil {
			return nil, err
		}
		c.all = append(c.all, w)
		return w, nil
	}
	c.turn = (c.turn + 1) % len(c.all)
	return c.all[c.turn], nil
}

// Call runs a callback of a worker's nodes.
func (c *Crew) Call(now time.Time, call task.Call) *task.Result {
	return call.Worker.Run(c.context(), now, call.Item)
}

var errReleasing = errors.New("the task is being released")

// Refuse is the result of an item that is not run, as the task is being released.
func (c *Crew) Refuse(it *task.Item) (*task.Result, error) {
	w, err := c.next()
	if err != nil {
		return nil, err
	}
	return w.Refuse(it, errReleasing), nil
}

func (c *Crew) context() context.Context {
	if c.cfg.Context == nil {
		return context.Background()
	}
	return c.cfg.Context
}

// Close closes the user's processors.
func (c *Crew) Close() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, w := range c.all {
		errs = append(errs, w.Close())
	}
	c.all = nil
	return errors.Join(errs...)
}

// AnswerOf tells the answer to what a worker has read from what else the task wants done.
func AnswerOf(actions []task.Action) (a task.Answer, rest []task.Action) {
	for _, action := range actions {
		if found, ok := action.(task.Answer); ok {
			a = found
			continue
		}
		rest = append(rest, action)
	}
	return a, rest
}
