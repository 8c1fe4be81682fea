package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// comparison says what is compared.
type comparison struct {
	programs, workloads string // comma-separated
	rounds              int
}

func comparisonFlags(fs *flag.FlagSet) *comparison {
	c := new(comparison)
	fs.StringVar(&c.programs, "programs", ours+",franz-go,kafka-streams,goka", "programs, comma-separated")
	fs.StringVar(&c.workloads, "workloads", "map,count,wordcount", "workloads, comma-separated")
	fs.IntVar(&c.rounds, "rounds", 3, "rounds; the table shows medians")
	return c
}

// compare runs all programs through all workloads and prints the table. Programs take turns within a round, because the machine's speed drifts.
func (b *bench) compare(ctx context.Context, c comparison, s sizes) error {
	programs, err := choose(contenders(b.dir), strings.Split(c.programs, ","))
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(b.dir, "results.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	var results []result
	for name := range strings.SplitSeq(c.workloads, ",") {
		w, err := newWorkload(name, s)
		if err != nil {
			return err
		}
		if err := b.cluster.load(ctx, w); err != nil {
			return err
		}
		for round := range c.rounds {
			for _, p := range programs {
				if !p.does(w.name) {
					continue
				}
				r, err := b.measure(ctx, p, w, round+1)
				if err != nil {
					return fmt.Errorf("%s, %s, round %d: %w", p.name, w.name, round+1, err)
				}
				log.Print(r)
				if err := lines.Encode(r); err != nil {
					return err
				}
				results = append(results, r)
			}
		}
	}
	table := markdown(results)
	fmt.Print(table)
	if err := os.WriteFile(filepath.Join(b.dir, "table.md"), []byte(table), 0o644); err != nil {
		return err
	}
	if wrong := slices.DeleteFunc(results, func(r result) bool { return r.Verified }); len(wrong) > 0 {
		return fmt.Errorf("%d runs failed; the programs' own output is in %s", len(wrong), filepath.Join(b.dir, "logs"))
	}
	return nil
}

func (r result) String() string {
	head := fmt.Sprintf("%-9s round %d %-13s ", r.Workload, r.Round, r.Program)
	if !r.Verified {
		return head + "FAILED: " + r.Why
	}
	return head + fmt.Sprintf("%6.2f CPU-s/M (whole %6.2f)  %9.0f records/s  %5.0f MiB  %.1f s", r.CPUPerMillionSteady, r.CPUPerMillion, r.RecordsPerSecondSteady, r.PeakRSSMiB, r.WallSeconds)
}
