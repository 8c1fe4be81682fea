// Command drive measures stream-processing programs side by side: it loads topics, starts a program, waits until it has done its work, reads what
// that cost from /proc, checks the output and ends the program. See ../README.md.
//
//	drive compare [flags]                            all programs, in turns; prints the table
//	drive run -workload map [flags] -- PROGRAM ...   one program that is loaded for and measured once; prints a line of JSON
//
// In `run`, PROGRAM is everything before the workload: `drive run -workload count -- java -cp 'libs/*' bench.Program`.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: drive compare|run [flags]")
	}
	fs := flag.NewFlagSet("drive "+args[0], flag.ExitOnError)
	brokers := fs.String("brokers", "127.0.0.1:29092", "bootstrap address")
	dir := fs.String("dir", ".cache/bench", "where state, logs and results go, and where the built programs are")
	sizes := sizeFlags(fs)
	settings := settingFlags(fs)
	switch args[0] {
	case "compare":
		comparison := comparisonFlags(fs)
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		b, err := newBench(*brokers, *dir, settings)
		if err != nil {
			return err
		}
		defer b.close()
		return b.compare(ctx, *comparison, *sizes)
	case "run":
		workload := fs.String("workload", "map", "map, count or wordcount")
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		b, err := newBench(*brokers, *dir, settings)
		if err != nil {
			return err
		}
		defer b.close()
		return b.once(ctx, *workload, *sizes, fs.Args())
	}
	return fmt.Errorf("no command %q; there are compare and run", args[0])
}

// bench is what a comparison and a single run share.
type bench struct {
	cluster  *cluster
	dir      string
	settings *settings
}

func newBench(brokers, dir string, s *settings) (*bench, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"state", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	c, err := connect(brokers)
	if err != nil {
		return nil, err
	}
	return &bench{cluster: c, dir: dir, settings: s}, nil
}

func (b *bench) close() { b.cluster.close() }

// once loads for the workload and measures one program.
func (b *bench) once(ctx context.Context, workload string, sizes sizes, command []string) error {
	if len(command) == 0 {
		return fmt.Errorf("name the program after --")
	}
	w, err := newWorkload(workload, sizes)
	if err != nil {
		return err
	}
	if err := b.cluster.load(ctx, w); err != nil {
		return err
	}
	r, err := b.measure(ctx, program{name: filepath.Base(command[0]), command: command}, w, 1)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
