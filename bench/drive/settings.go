package main

import (
	"flag"
	"fmt"
	"strconv"
	"time"
)

// settings are what every program is told on its command line, and how long we wait for it.
type settings struct {
	guarantee string
	threads   int
	commitMS  int
	cache     int64
	timeout   time.Duration
}

func settingFlags(fs *flag.FlagSet) *settings {
	s := new(settings)
	fs.StringVar(&s.guarantee, "guarantee", "alos", "alos (at least once) or eos (exactly once)")
	fs.IntVar(&s.threads, "threads", 2, "threads a program may use")
	fs.IntVar(&s.commitMS, "commit-ms", 1000, "commit interval")
	fs.Int64Var(&s.cache, "cache", 64<<20, "record cache, bytes")
	fs.DurationVar(&s.timeout, "timeout", 5*time.Minute, "give a program up after")
	return s
}

// arguments is the command line after the program's name.
func (s *settings) arguments(workload, brokers, app, state string) []string {
	return []string{workload, "--brokers", brokers, "--app", app, "--state", state, "--guarantee", s.guarantee,
		"--threads", strconv.Itoa(s.threads), "--commit-ms", strconv.Itoa(s.commitMS), "--cache", strconv.FormatInt(s.cache, 10)}
}

// sizes are the numbers of input records: of map and count, and lines of wordcount.
type sizes struct{ mapped, counted, lines int }

func sizeFlags(fs *flag.FlagSet) *sizes {
	s := &sizes{mapped: 5_000_000, counted: 3_000_000, lines: 300_000}
	fs.IntVar(&s.lines, "lines", s.lines, "lines of wordcount")
	fs.Func("records", fmt.Sprintf("records of map and of count (default %d and %d)", s.mapped, s.counted), func(v string) error {
		n, err := strconv.Atoi(v)
		s.mapped, s.counted = n, n
		return err
	})
	return s
}
