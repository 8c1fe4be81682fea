// Command wordcount counts the words of Isaac Newton's Opticks with Understudy and shows its ten most frequent words while it counts.
//
// Without flags it runs on an embedded broker. With -brokers it runs on a real one; start it more than once with the same -app, and each
// process with a -state of its own, and they share the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
)

const (
	topTen     = 10
	partitions = 4
)

func main() {
	flags := kit.Parse("wordcount")
	kit.Run(func(ctx context.Context) error {
		screen := newScreen(os.Stdout)
		got, err := run(ctx, flags, screen)
		if err != nil {
			return err
		}
		return report(os.Stdout, got, countAll(opticks))
	})
}

// run counts the book until all of its words are in the result.
func run(ctx context.Context, flags *kit.Flags, screen *screen) (map[string]int64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	env, err := flags.Open(ctx, map[string]int32{"lines": partitions, "counts": partitions})
	if err != nil {
		return nil, err
	}
	defer env.Close()
	if _, err := env.Load(ctx, "lines", partitions, slices.Collect(strings.Lines(opticks))); err != nil {
		return nil, err
	}
	app, err := streams.New(topology(), streams.Config{
		ApplicationID: flags.App, Brokers: env.Brokers, StateDir: env.StateDir, CommitInterval: 200 * time.Millisecond, Log: flags.Logger(),
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	counts := newTally()
	followed := make(chan error, 1)
	go func() { followed <- env.Follow(ctx, "counts", counts.take) }()
	err = watch(ctx, counts, screen, ended)
	stop()
	if errors.Is(err, errDone) {
		err = <-ended
	}
	return counts.counts, errors.Join(err, <-followed)
}

var errDone = errors.New("all words are counted")

// watch shows the progress until all words are counted or the application ends.
func watch(ctx context.Context, counts *tally, screen *screen, ended <-chan error) error {
	var total int64
	for _, n := range countAll(opticks) {
		total += n
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(err, ctx.Err())
		case now := <-tick.C:
			done := counts.sum()
			screen.show(now, done, total, counts.top(topTen))
			if done >= total {
				return errDone
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
