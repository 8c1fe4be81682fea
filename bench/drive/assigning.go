package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// assigning is the rows of the assignor's own benchmarks, which `go test -bench` has run.
const assigning = "5,000 tasks, 200 members, two standbys"

// benchmarkLine is one line of `go test -bench`: the name, and values by unit.
type benchmarkLine struct {
	name   string
	values map[string]float64
}

func benchmarkLines(text []byte) []benchmarkLine {
	var all []benchmarkLine
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		one := benchmarkLine{fields[0], map[string]float64{}}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				one.values[fields[i+1]] = v
			}
		}
		all = append(all, one)
	}
	return all
}

// assignFigures are the worst of the benchmarks of Assign, and the size that a benchmark reports as wire-bytes.
func assignFigures(lines []benchmarkLine) map[figure]float64 {
	f := map[figure]float64{}
	worst := func(name figure, line benchmarkLine, unit string, scale float64) {
		if v, ok := line.values[unit]; ok {
			f[name] = max(f[name], v*scale)
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line.name, "BenchmarkAssign") {
			worst(assignTime, line, "ns/op", 1e-6)
			worst(assignMemory, line, "B/op", 1e-6)
		}
		worst(metadataBytes, line, "wire-bytes", 1e-3)
	}
	return f
}

// assigned takes in what `go test -bench` has written to the file.
func (b *bench) assigned(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := b.results.forget(assigning); err != nil {
		return err
	}
	one := result{At: time.Now(), Part: "assignor", Workload: assigning, Program: ours, Round: 1, Scale: 1, Figures: assignFigures(benchmarkLines(text)), Verified: true}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Benchmark") {
			one.Notes = append(one.Notes, strings.TrimSpace(line))
		}
	}
	if len(one.Figures) == 0 {
		one.Verified, one.Why = false, "go test -bench printed no figures, see "+file
	}
	return b.results.add(one)
}
