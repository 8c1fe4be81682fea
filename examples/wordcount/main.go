// Command wordcount counts the words of Isaac Newton's Opticks with Understudy and shows its ten most frequent words while it counts.
//
// Without flags it runs on an embedded broker. With -brokers it runs on a real one; start it more than once with the same -app, and each
// process with a -state of its own, and they share the work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
)

const (
	topTen     = 10
	partitions = 4
)

func main() {
	times := 1
	flags := kit.Parse("wordcount", func(set *flag.FlagSet) {
		set.IntVar(&times, "times", times, "count the book that many times over, to have something to look at")
	})
	kit.Run(func(ctx context.Context) error { return run(ctx, flags, lines(times), newScreen(os.Stdout)) })
}

// run counts the lines and holds the result against a plain loop over them.
func run(ctx context.Context, flags *kit.Flags, lines []string, screen *screen) error {
	want := countAll(lines)
	got, err := count(ctx, flags, lines, screen, sum(want))
	if err != nil {
		return err
	}
	return report(screen.out, got, want)
}

// count runs the application until the counts add up to all words.
func count(ctx context.Context, flags *kit.Flags, lines []string, screen *screen, words int64) (map[string]int64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := flags.App + "-counts" // an application's own, so that another application id begins anew
	env, err := flags.Open(ctx, map[string]int32{"lines": partitions, out: partitions})
	if err != nil {
		return nil, err
	}
	defer env.Close()
	if err := env.Load(ctx, "lines", partitions, lines); err != nil {
		return nil, err
	}
	app, err := streams.New(topology(out), streams.Config{
		ApplicationID: flags.App, Brokers: env.Brokers, StateDir: env.StateDir, CommitInterval: 200 * time.Millisecond,
		Standbys: flags.Standbys, Log: flags.Logger(),
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 2)
	go func() { defer stop(); ended <- app.Run(ctx) }()
	counts := newTally()
	go func() { defer stop(); ended <- env.Follow(ctx, out, counts.take) }()
	err = watch(ctx, counts, screen, words)
	stop()
	if failed := errors.Join(<-ended, <-ended); failed != nil {
		return nil, failed
	}
	return counts.counts, err
}

// watch shows the progress until all words are counted, or until ctx ends: the example was interrupted or something in it has failed.
func watch(ctx context.Context, counts *tally, screen *screen, words int64) error {
	screen.show(time.Now(), 0, words, nil)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			done := counts.sum()
			screen.show(now, done, words, counts.top(topTen))
			if done == words {
				return nil
			}
		}
	}
}

// report prints the final ten words beside what a plain loop over the text counts, and fails if any word differs.
func report(out io.Writer, got, want map[string]int64) error {
	fmt.Fprintf(out, "\nThe ten most frequent words of Opticks:\n")
	for i, w := range top(want, topTen) {
		fmt.Fprintf(out, "%3d. %-8s %6d   (a plain loop: %d)\n", i+1, w.word, got[w.word], w.count)
	}
	if !maps.Equal(got, want) {
		return errors.New("the counts differ from those of a plain loop over the text")
	}
	fmt.Fprintf(out, "All %d words agree with a plain loop over the text.\n", len(want))
	return nil
}
