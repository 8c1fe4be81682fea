package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// probes is the number of restored rows that are asked for.
	probes = 1000
	// leaving is how long a program's group may take to be empty after it has ended.
	leaving = time.Minute
	// catching is how often the program's output is looked at for the line that says that it runs.
	catching = 10 * time.Millisecond
)

// restore lets each program build its store once, and then measures, in turns, how it comes back from an empty state directory.
func (b *bench) restore(ctx context.Context, w workload, programs []program) error {
	filled := map[string]*run{}
	defer func() {
		for _, r := range filled {
			_ = r.clear(ctx) // topics that stay are in nobody's way
		}
	}()
	return b.series(ctx, w, programs, func(ctx context.Context, p program, w workload, round int) (result, error) {
		if filled[p.name] == nil {
			r, why, err := b.fill(ctx, p, w)
			if err != nil || why != "" {
				result := r.result
				result.Why = why
				return result, errors.Join(err, r.clear(ctx))
			}
			filled[p.name] = r
		}
		return filled[p.name].comeBack(ctx, round)
	})
}

// fill has the program read the whole input and stop.
func (b *bench) fill(ctx context.Context, p program, w workload) (r *run, why string, err error) {
	if r, err = b.newRun(ctx, p, w, 0); err != nil {
		return r, "", err
	}
	if err := b.cluster.load(ctx, r.in); err != nil {
		return r, "", err
	}
	if err := r.launch(ctx); err != nil {
		return r, "", err
	}
	seen, err := r.watch(ctx, r.process.started)
	if err != nil || seen.trouble != "" {
		return r, seen.trouble, err
	}
	if _, err := r.process.stop(); err != nil {
		return r, err.Error(), nil
	}
	return r, "", nil
}

// comeBack starts the program without its state and measures until it runs again.
func (r *run) comeBack(ctx context.Context, round int) (result, error) {
	b := r.bench
	r.result = r.blank(round)
	if err := b.cluster.await(ctx, r.app, leaving, func(_, empty bool) bool { return empty }); err != nil {
		return r.result, err
	}
	if err := os.RemoveAll(r.state); err != nil {
		return r.result, err
	}
	if err := b.cluster.recreate(ctx, "out", r.in.partitions, false); err != nil {
		return r.result, err
	}
	if err := r.launch(ctx); err != nil {
		return r.result, err
	}
	back, why, err := r.awaitRunning(ctx)
	if err == nil && why == "" {
		why, err = r.take(back)
	}
	if err == nil && why == "" {
		why, err = r.probe(ctx)
	}
	_, stopErr := r.process.stop()
	if stopErr != nil && why == "" {
		why = stopErr.Error()
	}
	r.result.Why, r.result.Verified = why, why == "" && err == nil
	return r.result, err
}

// back is what a program says when it has restored its stores and runs.
type back struct {
	at       time.Time
	restored int64
	took     time.Duration // from the first restore's beginning to the last one's end
}

var runningLine = regexp.MustCompile(`(?m)^RUNNING at=(\d+) restored=(\d+) restore_ms=(\d+)\b`)

// lastRunning finds the last such line in the output of a program.
func lastRunning(output []byte) (b back, ok bool) {
	lines := runningLine.FindAllSubmatch(output, -1)
	if len(lines) == 0 {
		return b, false
	}
	var n [3]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(string(lines[len(lines)-1][i+1]), 10, 64) // digits
	}
	return back{time.UnixMilli(n[0]), n[1], time.Duration(n[2]) * time.Millisecond}, true
}

// awaitRunning waits until the program says that it runs and has restored everything.
func (r *run) awaitRunning(ctx context.Context) (b back, why string, err error) {
	for {
		output, err := os.ReadFile(filepath.Clean(r.process.logFile))
		if err != nil {
			return b, "", err
		}
		var ok bool
		if b, ok = lastRunning(output); ok && b.restored >= int64(r.in.records) {
			return b, "", nil
		}
		switch {
		case r.process.ended():
			return b, "ended before it had restored: " + r.process.lastWords(), nil
		case time.Since(r.process.started) > r.bench.settings.timeout:
			return b, fmt.Sprintf("after %s it has restored %d of %d records", r.bench.settings.timeout, b.restored, r.in.records), nil
		}
		if err := pause(ctx, catching); err != nil {
			return b, "", err
		}
	}
}

// take reads the figures of a program that has just come back.
func (r *run) take(b back) (why string, err error) {
	used, err := r.process.cpu()
	if err != nil {
		return "ended after it had restored: " + r.process.lastWords(), nil
	}
	memory, err := r.process.peakRSS()
	if err != nil {
		return "", err
	}
	r.undisturbed()
	f := r.result.Figures
	f[cpu] = used / float64(b.restored) * 1e6
	f[rate] = float64(b.restored) / max(b.took.Seconds(), .001)
	f[rss] = memory
	f[running] = b.at.Sub(r.process.started).Seconds()
	return "", nil
}

// probe sends new values for some keys. The program keeps the first value of each, so that what comes out is what was restored.
func (r *run) probe(ctx context.Context) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := r.bench.cluster
	want := map[string][]byte{}
	every, i := max(1, r.in.records/probes), 0
	for k, v := range r.in.all() {
		if i%every == 0 {
			want[string(k)] = v
		}
		i++
	}
	w, err := c.writer(r.in.topic())
	if err != nil {
		return "", err
	}
	for k := range want {
		w.write(ctx, []byte(k), []byte("another"))
	}
	if err := w.close(ctx); err != nil {
		return "", err
	}
	reader, err := c.open(kgo.ConsumeTopics("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return "", err
	}
	defer reader.Close()
	for len(want) > 0 {
		reader.PollFetches(ctx).EachRecord(func(o *kgo.Record) {
			if v, ok := want[string(o.Key)]; ok && !bytes.Equal(v, o.Value) {
				why = fmt.Sprintf("the restored row of %s is %.20q", o.Key, o.Value)
			}
			delete(want, string(o.Key))
		})
		switch {
		case why != "":
			return why, nil
		case ctx.Err() != nil:
			return fmt.Sprintf("%d of %d restored rows were not answered", len(want), probes), nil
		}
	}
	return "", nil
}
