package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// pc is Confluent's parallel consumer, which is in the failure benchmark only.
const pc = "parallel-consumer"

// The failure benchmark's workloads.
const (
	besideFailing = "good records beside failing ones"
	unordered     = "10,000 records of 0–5 ms, 16 workers, unordered"
	byKey         = "10,000 records of 0–5 ms, 16 workers, by 1,000 keys"
	oneKey        = "one key, 16 workers"
	slowCalls     = "slow calls"
	delayed       = "delays of 10 ms to 60 s in one topic"
	besideParked  = "main path beside parked records"
	whole         = "map, whole"
)

// trouble is what a workload of the failure benchmark is made of. Its variants take turns.
type trouble struct {
	variants []variant
	measure  func(*bench, variant) measuring
}

// variant is one program, or one setting of ours. Unlike in other parts it is the variant's name that stands in a result for the program.
type variant struct {
	name    string
	program string
	failing float64 // share of the records that always fail
	workers int
	order   string // what a program is told: all, key or none
	records int
	keys    int
	from    time.Duration // of the calls
	to      time.Duration
}

func own(name string) variant { return variant{name: name, program: ours} }

// failures is the work of `make bench-failure`, the rows of its table in order.
func failures() []workload {
	var levels []variant
	for _, share := range []float64{0, .01, .1, .5} {
		v := own(level(share))
		v.failing = share
		levels = append(levels, v)
	}
	slow := func(workers int, call time.Duration) variant {
		return variant{name: calls(call), program: ours, workers: workers, order: "none", records: 25_000, keys: 25_000, from: call, to: call}
	}
	return []workload{
		{name: besideFailing, trouble: &trouble{levels, (*bench).beside}},
		sleepers(unordered, "none", 10_000, 10_000, sarama, pc),
		sleepers(byKey, "key", 10_000, 1_000, sarama, pc),
		sleepers(oneKey, "key", 2_000, 1, sarama, pc),
		{name: slowCalls, trouble: &trouble{[]variant{slow(50, quickCall), slow(1_000, slowCall)}, (*bench).sleeping}},
		{name: delayed, trouble: &trouble{[]variant{own(ours)}, (*bench).delays}},
		{name: besideParked, trouble: &trouble{[]variant{own(ours)}, (*bench).parked}},
		{name: whole, does: "map", input: pairsOf(5_000_000, 100_000, partitions), programs: []string{ours}},
	}
}

const quickCall, slowCall = 10 * time.Millisecond, 200 * time.Millisecond

func level(share float64) string { return fmt.Sprintf("%g %% failing", 100*share) }

func calls(d time.Duration) string { return "calls of " + d.String() }

// sleepers is a workload of calls of 0 to 5 ms, on ours and on others.
func sleepers(name, order string, records, keys int, others ...string) workload {
	t := &trouble{measure: (*bench).sleeping}
	for _, program := range append([]string{ours}, others...) {
		t.variants = append(t.variants, variant{name: program, program: program, workers: 16, order: order, records: records, keys: keys, to: 5 * time.Millisecond})
	}
	return workload{name: name, trouble: t}
}

// programs are the variants of the workload that are asked for, as programs to take turns.
func (b *bench) variants(w workload) ([]program, error) {
	var chosen []program
	for _, v := range w.trouble.variants {
		if !listed(b.settings.programs, ",", v.program) {
			continue
		}
		p, err := choose(contenders(b.dir), []string{v.program})
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, program{v.name, p[0].command})
	}
	return chosen, nil
}

// misfortune measures the variants of a workload in turns.
func (b *bench) misfortune(ctx context.Context, w workload) error {
	programs, err := b.variants(w)
	if err != nil {
		return err
	}
	return b.series(ctx, w, programs, func(ctx context.Context, p program, w workload, round int) (result, error) {
		for _, v := range w.trouble.variants {
			if v.name == p.name {
				return w.trouble.measure(b, v)(ctx, p, w, round)
			}
		}
		return result{}, fmt.Errorf("no variant %q", p.name)
	})
}

// trial is a run of a workload of the failure benchmark on its way.
type trial struct {
	*run
	variant variant
	quick   bool
	out     string // topic; it and the input are named for the application, and go with what that has made
}

// trial makes the topics and starts the program, for f to go on with. What f finds wrong with the program is a fault.
func (b *bench) trial(v variant, partitions int32, details []string, f func(context.Context, *trial) error) measuring {
	return func(ctx context.Context, p program, w workload, round int) (_ result, err error) {
		one, err := b.newRun(ctx, p, w, round)
		if err != nil {
			return one.result, err
		}
		t := &trial{run: one, variant: v, quick: b.settings.scale < 1}
		t.in, t.out = input{name: t.app + "-in", partitions: partitions}, t.app+"-out"
		defer func() { err = errors.Join(err, t.clear(ctx)) }()
		err = t.play(ctx, details, f)
		var blamed fault
		if errors.As(err, &blamed) {
			t.result.Why = string(blamed)
			return t.result, nil
		}
		t.result.Verified = err == nil
		return t.result, err
	}
}

func (t *trial) play(ctx context.Context, details []string, f func(context.Context, *trial) error) error {
	for topic, stamps := range map[string]bool{t.in.topic(): false, t.out: true} {
		if err := t.bench.cluster.recreate(ctx, topic, t.in.partitions, stamps); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(t.state, 0o755); err != nil {
		return err
	}
	command := append([]string{}, t.program.command...)
	command = append(command, details[0], "--brokers", t.bench.cluster.brokers, "--in", t.in.topic(), "--app", t.app, "--state", t.state,
		"--threads", strconv.Itoa(t.bench.settings.threads), "--commit-ms", strconv.FormatInt(t.bench.settings.commit.Milliseconds(), 10))
	command = append(command, details[1:]...)
	if t.variant.program == ours {
		command = append(command, t.bench.settings.profiling(t.app)...)
	}
	t.result.Command = strings.Join(command, " ")
	return f(ctx, t)
}

// begin starts the program and waits until its group is stable.
func (t *trial) begin(ctx context.Context) (err error) {
	if t.process, err = start(strings.Split(t.result.Command, " "), filepath.Join(t.bench.dir, "logs", t.app+".log")); err != nil {
		return err
	}
	if t.before, err = lookAround(t.bench.pids(t.process)...); err != nil {
		return err
	}
	err = t.bench.cluster.await(ctx, t.app, joining, func(stable, _ bool) bool { return stable || t.process.ended() })
	if err == nil && t.process.ended() {
		err = t.ended()
	}
	return err
}

func (t *trial) ended() error {
	return fault(fmt.Sprintf("ended before its work was done (%s): %s", t.process.cmd.ProcessState, t.process.lastWords()))
}

// line waits until the program prints a line that begins so, and returns its numbers, which stand there as name=number.
func (t *trial) line(ctx context.Context, word string, within time.Duration) (map[string]float64, error) {
	for deadline := time.Now().Add(within); ; {
		text, err := os.ReadFile(t.process.logFile)
		if err != nil {
			return nil, err
		}
		if numbers, ok := numbersIn(text, word); ok {
			return numbers, nil
		}
		switch {
		case t.process.ended():
			return nil, t.ended()
		case time.Now().After(deadline):
			return nil, fault(fmt.Sprintf("no line %s within %s: %s", word, within, t.process.lastWords()))
		}
		if err := pause(ctx, catching); err != nil {
			return nil, err
		}
	}
}

var namedNumber = regexp.MustCompile(`(\w+)=(-?\d+)\b`)

// numbersIn are those of the first whole line that begins with the word.
func numbersIn(text []byte, word string) (map[string]float64, bool) {
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, word+" ") || !strings.HasSuffix(line, "\n") {
			continue
		}
		numbers := map[string]float64{}
		for _, m := range namedNumber.FindAllStringSubmatch(line, -1) {
			numbers[m[1]], _ = strconv.ParseFloat(m[2], 64) // digits
		}
		return numbers, true
	}
	return nil, false
}

// finish ends the program, and checks that it has committed all of its input.
func (t *trial) finish(ctx context.Context) error {
	if _, err := t.process.stop(); err != nil {
		return fault(err.Error())
	}
	ends, _, err := t.bench.cluster.ends(ctx, t.in.topic())
	if err != nil {
		return err
	}
	committed, err := t.bench.cluster.admin.FetchOffsets(ctx, t.app)
	if err != nil {
		return err
	}
	if done, all := behind(ends, committed, 0); !all {
		return fault(fmt.Sprintf("has ended with %d records committed of %d", done, t.result.Records))
	}
	return nil
}
