package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	lookEvery = 100 * time.Millisecond
	// startEvery is how often the output is looked at where its first record is what counts.
	startEvery = 5 * time.Millisecond
	// quiet is how long the output has to stand still, once all is committed, before the work counts as done. Nobody commits before its output
	// is acknowledged.
	quiet = time.Second
	// quietAlone is the same for a program that commits no offsets.
	quietAlone = 5 * time.Second
	// patience is how long the broker may answer with errors that pass, as it does while topics come and go.
	patience = 10 * time.Second
	// steadyAtLeast is the number of seconds after the first quarter below which only the whole run is told: what is committed lags behind
	// what is done by a part of a commit interval, which flatters a short run.
	steadyAtLeast = 2.
)

// run is one run of a program on its way.
type run struct {
	bench   *bench
	program program
	w       workload
	in      input
	app     string // a group of its own
	state   string
	process *process
	before  others
	result  result
}

// newRun makes what a run needs: an empty output topic, no state, a name.
func (b *bench) newRun(ctx context.Context, p program, w workload, round int) (*run, error) {
	r := &run{bench: b, program: p, w: w, in: w.of(p.name), app: fmt.Sprintf("bench-%s-%s-%d-%x", legal(p.name), legal(w.name), round, time.Now().UnixMilli())}
	r.state = filepath.Join(b.dir, "state", r.app)
	r.result = r.blank(round)
	if w.shuffle != nil || w.trouble != nil {
		return r, nil // it has topics of its own
	}
	if err := b.cluster.recreate(ctx, "out", r.in.partitions, w.stamps); err != nil {
		return r, err
	}
	if w.paced > 0 {
		return r, b.cluster.recreate(ctx, r.in.topic(), r.in.partitions, w.stamps)
	}
	return r, nil
}

// legal is a name without what may not stand in a topic's.
func legal(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-', c == '.', c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			return c
		}
		return -1
	}, name)
}

// blank is a result that says what is being measured.
func (r *run) blank(round int) result {
	return result{
		At: time.Now(), Part: r.w.part, Workload: r.w.name, Program: r.program.name, Round: round, Records: r.in.records,
		Scale: r.bench.settings.scale, Figures: map[figure]float64{},
	}
}

// launch starts the program.
func (r *run) launch(ctx context.Context) error {
	b := r.bench
	if err := os.MkdirAll(r.state, 0o755); err != nil {
		return err
	}
	if err := pause(ctx, 1500*time.Millisecond); err != nil { // the broker is still busy with deletions: their files go a second later
		return err
	}
	command := append(append([]string{}, r.program.command...), b.settings.arguments(r.w, r.in, b.cluster.brokers, r.app, r.state)...)
	if r.program.name == ours {
		command = append(command, b.settings.profiling(r.app)...)
	}
	r.result.Command = strings.Join(command, " ")
	var err error
	if r.process, err = start(command, filepath.Join(b.dir, "logs", r.app+".log")); err != nil {
		return err
	}
	r.before, err = lookAround(b.pids(r.process)...)
	return err
}

// pids are the processes that are no disturbance.
func (b *bench) pids(p *process) []int {
	pids := []int{os.Getpid(), p.cmd.Process.Pid}
	if b.settings.brokerPID > 0 {
		pids = append(pids, b.settings.brokerPID)
	}
	return pids
}

// undisturbed notes what else ran since the launch. The program must still be alive.
func (r *run) undisturbed() {
	now, err := lookAround(r.bench.pids(r.process)...)
	if err != nil {
		r.result.Void = err.Error()
		return
	}
	r.result.OtherCores = now.cores(r.before)
	r.result.Disturbed = r.result.OtherCores > r.bench.settings.foreign
}

// clear removes what the run has left behind, whatever became of it.
func (r *run) clear(ctx context.Context) error {
	if r.process != nil {
		r.process.stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(r.bench.cluster.forget(ctx, r.app), os.RemoveAll(r.state))
}

// measure runs the program through the workload. What the program does wrong is in the result; an error is ours or the broker's.
func (b *bench) measure(ctx context.Context, p program, w workload, round int) (_ result, err error) {
	if w.paced == 0 {
		if err := b.cluster.load(ctx, w.of(p.name)); err != nil {
			return result{}, err
		}
	}
	r, err := b.newRun(ctx, p, w, round)
	defer func() { err = errors.Join(err, r.clear(ctx)) }()
	if err != nil {
		return r.result, err
	}
	if err := r.launch(ctx); err != nil {
		return r.result, err
	}
	seen, began, err := r.through(ctx)
	if err != nil {
		return r.result, err
	}
	_, stopErr := r.process.stop()
	switch {
	case seen.trouble != "":
		r.result.Why = seen.trouble
		return r.result, nil
	case stopErr != nil:
		r.result.Why = stopErr.Error()
		return r.result, nil
	}
	seen.figures(&r.result, began)
	return r.result, r.judge(ctx)
}

// through sees the program through its work, which begins with the process, or with its paced input.
func (r *run) through(ctx context.Context) (seen course, began time.Time, err error) {
	began = r.process.started
	if r.w.paced > 0 {
		var done func()
		if ctx, began, done, err = r.pace(ctx); err != nil {
			return seen, began, err
		}
		defer done()
	}
	seen, err = r.watch(ctx, began)
	r.undisturbed()
	return seen, began, err
}

// judge checks the output.
func (r *run) judge(ctx context.Context) error {
	records, why, err := r.bench.cluster.verify(ctx, r.w, r.in)
	if err != nil {
		return err
	}
	r.result.Figures[updates] = float64(records)
	if why == "" && r.w.stamps {
		why, err = r.latency(ctx)
	}
	r.result.Why, r.result.Verified = why, why == ""
	return err
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
	first   time.Time // the first look with output
	quarter sample    // the first look that found a quarter of the work done
	output  sample    // the look at which the output last grew
	end     sample    // the first look with that output that found everything committed
	rss     float64
	trouble string // why the program did not get through
}

// watch looks at the program until it has done its work, ended, or used up its time.
func (r *run) watch(ctx context.Context, began time.Time) (c course, err error) {
	if r.w.start {
		if c.first, err = r.awaitOutput(ctx, began); err != nil {
			return c, err
		}
	}
	for answered := time.Now(); ; {
		if err := pause(ctx, lookEvery); err != nil {
			return c, err
		}
		if r.process.ended() {
			c.trouble = fmt.Sprintf("ended before its work was done (%s): %s", r.process.cmd.ProcessState, r.process.lastWords())
			return c, nil
		}
		s, err := r.look(ctx)
		if passes(err) && time.Since(answered) < patience {
			log.Printf("looking again: %v", err)
			continue
		}
		if err != nil {
			return c, err
		}
		answered = time.Now()
		r.profile(c.add(s), s.done.all)
		if rss, err := r.process.peakRSS(); err == nil { // an error means that it has just ended
			c.rss = rss
		}
		if c.finished(s) {
			return c, nil
		}
		if time.Since(began) > r.bench.settings.timeout {
			c.trouble = fmt.Sprintf("not done after %s: %.1f %% of the input committed, %d records in the output", r.bench.settings.timeout, 100*s.done.share, s.out)
			return c, nil
		}
	}
}

// passes says whether a look may go better next time: the broker is busy with its topics, or the process has just ended and has no files.
func passes(err error) bool { return kerr.IsRetriable(err) || errors.Is(err, os.ErrNotExist) }

// awaitOutput waits for the first record in the output, or for what watch will see.
func (r *run) awaitOutput(ctx context.Context, began time.Time) (time.Time, error) {
	for !r.process.ended() && time.Since(began) < r.bench.settings.timeout {
		if err := pause(ctx, startEvery); err != nil {
			return time.Time{}, err
		}
		if _, out, err := r.bench.cluster.ends(ctx, "out"); err == nil && out > 0 {
			return time.Now(), nil
		}
	}
	return time.Time{}, nil
}

// profile tells our program when its steady part begins, and when all is done.
func (r *run) profile(begin, end bool) {
	if r.bench.settings.profile == "" || r.program.name != ours {
		return
	}
	if begin {
		r.process.signal(syscall.SIGUSR1)
	}
	if end {
		r.process.signal(syscall.SIGUSR2)
	}
}

func (r *run) look(ctx context.Context) (s sample, err error) {
	b := r.bench
	s.at = time.Now()
	if s.cpu, err = r.process.cpu(); err != nil {
		return s, fmt.Errorf("read the CPU time of %s: %w", r.app, err)
	}
	if _, s.out, err = b.cluster.ends(ctx, "out"); err != nil {
		return s, err
	}
	s.done, err = b.cluster.progress(ctx, r.app, r.w, r.in, b.settings.guarantee == "eos")
	if r.w.does == "map" { // one output for one input, so the output tells more exactly than commits do how far the work is
		s.done.share = min(1, float64(s.out)/float64(r.in.records))
	}
	return s, err
}

// add takes a look into account; it says whether that was the one at the quarter.
func (c *course) add(s sample) (quarter bool) {
	if c.quarter.at.IsZero() && s.done.share >= .25 {
		c.quarter, quarter = s, true
	}
	if c.first.IsZero() && s.out > 0 {
		c.first = s.at
	}
	if s.out != c.output.out || c.output.at.IsZero() {
		c.output, c.end = s, sample{}
	}
	if c.end.at.IsZero() && s.done.all {
		c.end = s
	}
	return quarter
}

func (c *course) finished(s sample) bool {
	still := s.at.Sub(c.output.at)
	if s.done.any {
		return s.done.all && still >= quiet
	}
	return s.out > 0 && still >= quietAlone
}

// figures fills in what the course tells.
func (c *course) figures(r *result, began time.Time) {
	if c.end.at.IsZero() { // no commits: its last output is all we know
		c.end = c.output
	}
	records := float64(r.Records)
	f := r.Figures
	f[first] = c.first.Sub(began).Seconds()
	f[rss] = c.rss
	f[cpuWhole] = c.end.cpu / records * 1e6
	f[rate] = records / c.output.at.Sub(began).Seconds()
	f[cpu] = f[cpuWhole]
	rest := 1 - c.quarter.done.share
	span := c.output.at.Sub(c.quarter.at).Seconds()
	if c.quarter.at.IsZero() || rest < .5 || span < steadyAtLeast {
		return // too short to tell more than the whole
	}
	f[cpu] = (c.end.cpu - c.quarter.cpu) / (rest * records) * 1e6
	f[rate] = rest * records / span
}
