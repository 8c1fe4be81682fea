package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	lookEvery = 100 * time.Millisecond
	// quiet is how long the output has to stand still, once all is committed, before the work counts as done.
	quiet = 2 * time.Second
	// quietAlone is the same for a program that commits no offsets.
	quietAlone = 5 * time.Second
	// patience is how long the broker may answer with errors that pass, as it does while topics come and go.
	patience = 10 * time.Second
	// steadyAtLeast is the number of seconds after the first quarter below which only the whole run is told: what is committed lags behind
	// what is done by a part of a commit interval, which flatters a short run.
	steadyAtLeast = 2.
)

// result is what one run of one program cost. "Steady" leaves out the first quarter of the input, and with it the start of the program.
type result struct {
	Program   string `json:"program"`
	Workload  string `json:"workload"`
	Guarantee string `json:"guarantee"`
	Round     int    `json:"round"`
	Records   int    `json:"records"`

	WallSeconds            float64 `json:"wall_s"` // from the start of the process to its last output
	CPUPerMillion          float64 `json:"cpu_s_per_million"`
	CPUPerMillionSteady    float64 `json:"cpu_s_per_million_steady"`
	RecordsPerSecond       float64 `json:"records_per_s"`
	RecordsPerSecondSteady float64 `json:"records_per_s_steady"`
	PeakRSSMiB             float64 `json:"peak_rss_mib"`
	StopSeconds            float64 `json:"stop_s"`

	OutRecords int64  `json:"out_records"`
	Verified   bool   `json:"verified"`
	Why        string `json:"why,omitempty"` // of a run that is not verified
}

// measure runs the program through the workload, whose input is loaded. What the program does wrong is in the result; an error is ours or the broker's.
func (b *bench) measure(ctx context.Context, p program, w workload, round int) (result, error) {
	app := fmt.Sprintf("bench-%s-%s-%d-%x", p.name, w.name, round, time.Now().Unix()) // a group of its own
	state := filepath.Join(b.dir, "state", app)
	r := result{Program: p.name, Workload: w.name, Guarantee: b.settings.guarantee, Round: round, Records: w.records}
	if err := b.prepare(ctx, state); err != nil {
		return r, err
	}
	command := append(append([]string{}, p.command...), b.settings.arguments(w.name, b.cluster.brokers, app, state)...)
	process, err := start(command, filepath.Join(b.dir, "logs", app+".log"))
	if err != nil {
		return r, err
	}
	seen, watchErr := b.watch(ctx, process, app, w)
	took, stopErr := process.stop()
	r.StopSeconds = took.Seconds()
	switch {
	case watchErr != nil:
		return r, watchErr
	case seen.trouble != "":
		r.Why = seen.trouble
	case stopErr != nil:
		r.Why = stopErr.Error()
	default:
		r.cost(seen, process.started)
		if r.OutRecords, r.Why, err = b.cluster.verify(ctx, w); err != nil {
			return r, err
		}
		r.Verified = r.Why == ""
	}
	if err := b.cluster.forget(ctx, app); err != nil {
		return r, err
	}
	return r, os.RemoveAll(state)
}

// prepare gives the program an empty output topic and no state.
func (b *bench) prepare(ctx context.Context, state string) error {
	if err := b.cluster.recreate(ctx, "out"); err != nil {
		return err
	}
	if err := os.RemoveAll(state); err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	return pause(ctx, 2*time.Second) // the broker is still busy with the deletions
}

// sample is one look at a running program.
type sample struct {
	at   time.Time
	cpu  float64 // seconds so far
	out  int64   // end of the output topic
	done progress
}

// course is what was seen of a run.
type course struct {
	quarter sample // the first look that found a quarter of the work done
	output  sample // the look at which the output last grew
	end     sample // the first look with that output that found everything committed
	rss     float64
	trouble string // why the program did not get through
}

// watch looks at the program until it has done its work, ended, or used up its time.
func (b *bench) watch(ctx context.Context, p *process, app string, w workload) (course, error) {
	var c course
	seen := time.Now()
	for {
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-p.exited:
			c.trouble = fmt.Sprintf("ended before its work was done (%s): %s", p.cmd.ProcessState, p.lastWords())
			return c, nil
		case <-time.After(lookEvery):
		}
		s, err := b.look(ctx, p, app, w)
		if kerr.IsRetriable(err) && time.Since(seen) < patience {
			log.Printf("looking again: %v", err)
			continue
		}
		if err != nil {
			return c, err
		}
		seen = time.Now()
		c.add(s)
		if rss, err := p.peakRSS(); err == nil { // an error means that it has just ended
			c.rss = rss
		}
		if c.finished(s) {
			return c, nil
		}
		if time.Since(p.started) > b.settings.timeout {
			c.trouble = fmt.Sprintf("not done after %s: %.1f %% of the input committed, %d records in the output", b.settings.timeout, 100*s.done.share, s.out)
			return c, nil
		}
	}
}

func (b *bench) look(ctx context.Context, p *process, app string, w workload) (s sample, err error) {
	s.at = time.Now()
	if s.cpu, err = p.cpu(); err != nil {
		return s, fmt.Errorf("read the CPU time of %s: %w", app, err)
	}
	if _, s.out, err = b.cluster.ends(ctx, "out"); err != nil {
		return s, err
	}
	s.done, err = b.cluster.progress(ctx, app, w, b.settings.guarantee == "eos")
	if w.name == "map" { // one output for one input, so the output tells more exactly than commits do how far the work is
		s.done.share = min(1, float64(s.out)/float64(w.records))
	}
	return s, err
}

func (c *course) add(s sample) {
	if c.quarter.at.IsZero() && s.done.share >= .25 {
		c.quarter = s
	}
	if s.out != c.output.out || c.output.at.IsZero() {
		c.output, c.end = s, sample{}
	}
	if c.end.at.IsZero() && s.done.all {
		c.end = s
	}
}

func (c *course) finished(s sample) bool {
	still := s.at.Sub(c.output.at)
	if s.done.any {
		return s.done.all && still >= quiet
	}
	return s.out > 0 && still >= quietAlone
}

// cost fills in the figures.
func (r *result) cost(c course, started time.Time) {
	if c.end.at.IsZero() { // no commits: its last output is all we know
		c.end = c.output
	}
	millions := float64(r.Records) / 1e6
	r.WallSeconds = c.output.at.Sub(started).Seconds()
	r.CPUPerMillion = c.end.cpu / millions
	r.RecordsPerSecond = float64(r.Records) / r.WallSeconds
	r.PeakRSSMiB = c.rss
	r.CPUPerMillionSteady, r.RecordsPerSecondSteady = r.CPUPerMillion, r.RecordsPerSecond
	rest := 1 - c.quarter.done.share
	span := c.output.at.Sub(c.quarter.at).Seconds()
	if c.quarter.at.IsZero() || rest < .5 || span < steadyAtLeast {
		return // too short to tell more than the whole
	}
	r.CPUPerMillionSteady = (c.end.cpu - c.quarter.cpu) / (rest * millions)
	r.RecordsPerSecondSteady = rest * float64(r.Records) / span
}
