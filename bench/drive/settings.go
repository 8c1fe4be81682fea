package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what every program is told on its command line, and how it is measured.
type settings struct {
	guarantee string
	threads   int
	commit    time.Duration
	cache     int64
	timeout   time.Duration

	rounds, repeats int
	scale           float64
	foreign         float64
	brokerPID       int
	brokerLog       string
	assignor        string
	benchmarks      string
	long            time.Duration
	profile         string
	programs        string // comma-separated
	workloads       string
}

func settingFlags(fs *flag.FlagSet) *settings {
	s := new(settings)
	fs.StringVar(&s.guarantee, "guarantee", "alos", "alos (at least once) or eos (exactly once)")
	fs.IntVar(&s.threads, "threads", 2, "threads a program may use")
	fs.DurationVar(&s.commit, "commit", time.Second, "commit interval, where a workload has none of its own")
	fs.Int64Var(&s.cache, "cache", 64<<20, "record cache, bytes")
	fs.DurationVar(&s.timeout, "timeout", 6*time.Minute, "give a program up after")
	fs.IntVar(&s.rounds, "rounds", 3, "rounds; the table shows medians")
	fs.IntVar(&s.repeats, "repeats", 3, "runs of a program and workload that may be repeated because something disturbed them")
	fs.Float64Var(&s.scale, "scale", 1, "share of the records; a small one is for a look only")
	fs.Float64Var(&s.foreign, "foreign", .15, "cores that other programs may keep busy before a run is thrown out")
	fs.IntVar(&s.brokerPID, "broker-pid", 0, "the broker's process, which is no disturbance")
	fs.StringVar(&s.brokerLog, "broker-log", "", "the broker's log, in which rebalance counts rounds")
	fs.StringVar(&s.assignor, "assignor", "", "what go test -bench has printed of the assignor, for the rows of rebalance")
	fs.StringVar(&s.benchmarks, "benchmarks", "", "what go test -bench has printed of policies and hole maps, for the rows of failure")
	fs.DurationVar(&s.long, "long", time.Minute, "how long good records are watched beside failing ones, in failure, for each share of these")
	fs.StringVar(&s.profile, "profile", "", "folder for cpu and heap profiles of our program's steady part")
	fs.StringVar(&s.programs, "programs", "", "these programs only, comma-separated")
	fs.StringVar(&s.workloads, "workloads", "", "these workloads only, separated by semicolons")
	return s
}

// check finds names that nothing has, before anything takes time.
func (s *settings) check(names []string) error {
	for _, name := range names {
		if sitting(name) != sitting(names[0]) {
			return fmt.Errorf("%s and %s have tables of their own: measure them one after the other", names[0], name)
		}
	}
	var known []string
	for _, name := range names {
		all, err := part(name, s.scale)
		if err != nil {
			return err
		}
		for _, w := range all {
			known = append(known, w.name)
		}
	}
	return errors.Join(allIn("workload", s.workloads, ";", known), allIn("program", s.programs, ",", append(slices.Clone(columns), pc)))
}

func allIn(what, list, separator string, known []string) error {
	for name := range strings.SplitSeq(list, separator) {
		if list != "" && !slices.Contains(known, name) {
			return fmt.Errorf("no %s %q; there are %s", what, name, strings.Join(known, separator+" "))
		}
	}
	return nil
}

// arguments is the command line after the program's name.
func (s *settings) arguments(w workload, in input, brokers, app, state string) []string {
	commit, cache := s.commit, s.cache
	if w.commit > 0 {
		commit = w.commit
	}
	if w.each {
		cache = 0
	}
	return []string{w.does, "--brokers", brokers, "--in", in.topic(), "--app", app, "--state", state, "--guarantee", s.guarantee,
		"--threads", strconv.Itoa(s.threads), "--commit-ms", strconv.FormatInt(commit.Milliseconds(), 10), "--cache", strconv.FormatInt(cache, 10)}
}

// profiling is what our program is told besides.
func (s *settings) profiling(app string) []string {
	if s.profile == "" {
		return nil
	}
	return []string{"--profile", filepath.Join(s.profile, app)}
}
