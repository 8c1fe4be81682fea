package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
)

// reports is the topic of the sensors: the key is a crossing, the value "<number of the report> <time in ns> <cars that wait>".
const reports = "reports"

const crossings = 50

// city has sensors that report without end, and lights.
type city struct {
	env   *kit.Env
	rate  int
	began time.Time
	done  chan struct{} // closed when the sensors are to stop

	mu     sync.Mutex
	sent   int
	lit    map[int]bool // by number of the report
	again  int
	old    int           // reports that were sent before the crash was over
	left   int           // of these, those whose light is not set
	newest int           // the report with the highest number of those that have set a light
	age    time.Duration // how old the report was of the light that was set last
}

func newCity(env *kit.Env, rate int) *city {
	return &city{env: env, rate: rate, began: time.Now(), done: make(chan struct{}), lit: map[int]bool{}, newest: -1}
}

// feed reports at the rate that is asked for.
func (c *city) feed(ctx context.Context) error {
	const beat = 20 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.done:
			return nil
		case <-tick.C:
		}
		for due += float64(c.rate) * beat.Seconds(); due >= 1; due-- {
			if err := c.report(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("write a report: %w", err)
			}
		}
	}
}

func (c *city) report(ctx context.Context) error {
	c.mu.Lock()
	n := c.sent
	c.sent++
	c.mu.Unlock()
	crossing := n % crossings
	return c.env.Put(ctx, reports, int32(crossing%partitions), kit.Record{
		Key: fmt.Appendf(nil, "crossing-%d", crossing), Value: fmt.Appendf(nil, "%d %d %d", n, time.Now().UnixNano(), n*7%23),
	})
}

// enough stops the sensors.
func (c *city) enough() { close(c.done) }

// take notes a light that was set.
func (c *city) take(r kit.Record) {
	words := strings.Fields(string(r.Value))
	n, err := strconv.Atoi(words[0])
	at, err2 := strconv.ParseInt(words[1], 10, 64)
	if err != nil || err2 != nil {
		return // not of ours
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lit[n] {
		c.again++
		return
	}
	c.lit[n] = true
	if n < c.old {
		c.left--
	}
	if n > c.newest {
		c.newest, c.age = n, time.Since(time.Unix(0, at))
	}
}

// cut says how many reports there are, and looks from now on at those of them whose lights are not set.
func (c *city) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old, c.left = c.sent, c.sent-len(c.lit)
	return c.old
}

// state is how things are.
type state struct {
	sent, lit, again, left, newest int
	age                            time.Duration
}

func (c *city) look() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return state{c.sent, len(c.lit), c.again, c.left, c.newest, c.age}
}

// watch shows a line a second for a while.
func (c *city) watch(ctx context.Context, say *printer, d time.Duration) error {
	end := time.Now().Add(d)
	return c.await(ctx, say, "", func(state) bool { return !time.Now().Before(end) })
}

// patience bounds each part of the story.
const patience = 2 * time.Minute

// await shows a line a second until something has come about.
func (c *city) await(ctx context.Context, say *printer, what string, ok func(state) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	second, tick := time.NewTicker(time.Second), time.NewTicker(10*time.Millisecond)
	defer second.Stop()
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return fmt.Errorf("waiting for %s: it has not come within %v", what, patience)
		case <-second.C:
			s := c.look()
			say.line("%4.0f s  reports %6d  lights set %6d  the newest report that a light rests on: %6d", time.Since(c.began).Seconds(), s.sent, s.lit, s.newest)
		case <-tick.C:
			if ok(c.look()) {
				return nil
			}
		}
	}
}
