// Command drive measures stream-processing programs side by side: it loads topics, starts a program, waits until it has done its work, reads what
// that cost from /proc, checks the output and ends the program. See ../README.md.
//
//	drive all [flags]                                compare, restore, latency and start; prints the tables
//	drive compare|restore|latency|start|growth|heap  one part (or several, with commas); prints all tables there are
//	drive rebalance                                  the scenarios of make bench-rebalance, with a table of their own
//	drive failure                                    what make bench-failure measures, with a table of its own
//	drive recovery                                   what make bench-recovery measures, with a table of its own
//	drive table                                      prints the tables of what has been measured
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := execute(ctx, os.Args[1:]); err != nil {
		stop()
		log.Fatal(err)
	}
}

func execute(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: drive all|compare|restore|latency|start|growth|heap|rebalance|failure|recovery|table [flags]")
	}
	flags := flag.NewFlagSet("drive "+args[0], flag.ExitOnError)
	brokers := flags.String("brokers", "127.0.0.1:29092", "bootstrap address")
	dir := flags.String("dir", ".cache/bench", "where state, logs and results go, and where the built programs are")
	settings := settingFlags(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: the part comes first", flags.Arg(0))
	}
	names := everything
	if args[0] != "all" {
		names = strings.Split(args[0], ",")
	}
	b, err := newBench(*dir, settings, names)
	if err != nil {
		return err
	}
	if args[0] == "table" || strings.HasSuffix(args[0], "-table") {
		return b.tables()
	}
	if err := settings.check(names); err != nil {
		return err
	}
	if b.cluster, err = connect(*brokers); err != nil {
		return err
	}
	defer b.cluster.close()
	if err := b.cluster.ready(ctx); err != nil {
		return err
	}
	if settings.assignor != "" {
		if err := b.assigned(settings.assignor); err != nil {
			return err
		}
	}
	if settings.benchmarks != "" {
		if err := b.benchmarked(settings.benchmarks); err != nil {
			return err
		}
	}
	measured := b.parts(ctx, names)
	if err := b.tables(); err != nil {
		return err
	}
	if measured != nil {
		return measured
	}
	if n := len(slices.DeleteFunc(slices.Clone(b.results.all), func(r result) bool { return !r.failed() || r.Part == searching })); n > 0 {
		return fmt.Errorf("%d runs failed; the programs' own output is in %s", n, filepath.Join(b.dir, "logs"))
	}
	return nil
}

// bench is what all parts share.
type bench struct {
	cluster  *cluster
	dir      string
	settings *settings
	results  *results
	nodes    *nodes                // brokers of the scenario's own; nil where the cluster is that of all
	table    string                // the file of the tables
	markdown func(*results) string // makes them
	warm     bool                  // something has run since the broker was started
}

func newBench(dir string, s *settings, names []string) (*bench, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"state", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if s.profile != "" {
		if s.profile, err = filepath.Abs(s.profile); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(s.profile, 0o755); err != nil {
			return nil, err
		}
	}
	b := &bench{dir: dir, settings: s, table: "table.md", markdown: (*results).markdown}
	file := "results.jsonl"
	switch sitting(names[0]) {
	case rebalancePart:
		file, b.table, b.markdown = "rebalance.jsonl", "rebalance.md", (*results).rebalanceMarkdown
	case failurePart:
		file, b.table, b.markdown = "failure.jsonl", "failure.md", (*results).failureMarkdown
	case recoveryPart:
		file, b.table, b.markdown = "recovery.jsonl", "recovery.md", (*results).recoveryMarkdown
	}
	b.results, err = openResults(filepath.Join(dir, file))
	return b, err
}

// The parts that have results and a table of their own.
const rebalancePart, failurePart, recoveryPart = "rebalance", "failure", "recovery"

// sitting says to which of them a part belongs; all others belong together.
func sitting(name string) string {
	for _, of := range []string{rebalancePart, failurePart, recoveryPart} {
		if strings.HasPrefix(name, of) {
			return of
		}
	}
	return ""
}

// tables prints what there is, and keeps it in a file.
func (b *bench) tables() error {
	text := b.markdown(b.results)
	fmt.Print(text)
	return os.WriteFile(filepath.Join(b.dir, b.table), []byte(text), 0o644)
}
