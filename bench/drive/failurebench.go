package main

import (
	"os"
	"strings"
	"time"
)

// The rows that `go test -bench` measures, without a broker.
const (
	policyCost = "when nothing fails"
	holeMap    = "hole map"
)

const (
	widest   figure = "widest"
	encoding figure = "encode_us"
)

// policies are those that are compared with Stop.
var policies = []string{"KeyOrdered", "Parallel"}

// more is how many nanoseconds a record costs more with a policy, and allocations the same of these.
func more(policy string) figure        { return figure("more_ns_" + policy) }
func allocations(policy string) figure { return figure("more_allocs_" + policy) }

// failureFigures are what BenchmarkPolicies, BenchmarkMetadata and BenchmarkWidest report; of the encoding the slowest case.
func failureFigures(lines []benchmarkLine) (policy, holes map[figure]float64) {
	policy, holes = map[figure]float64{}, map[figure]float64{}
	for _, line := range lines {
		for _, name := range policies {
			if !strings.HasPrefix(line.name, "BenchmarkPolicies") {
				break
			}
			if v, ok := line.values[name+"-ns/record"]; ok {
				policy[more(name)] = v
			}
			if v, ok := line.values[name+"-allocs/record"]; ok {
				policy[allocations(name)] = v
			}
		}
		if v, ok := line.values["records-wide"]; ok {
			holes[widest] = v
		}
		if v, ok := line.values["ns/op"]; ok && strings.HasPrefix(line.name, "BenchmarkMetadata/encode") {
			holes[encoding] = max(holes[encoding], v/1e3)
		}
	}
	return policy, holes
}

// benchmarked takes in what `go test -bench` has written to the file.
func (b *bench) benchmarked(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := benchmarkLines(text)
	policy, holes := failureFigures(lines)
	for name, figures := range map[string]map[figure]float64{policyCost: policy, holeMap: holes} {
		if err := b.results.forget(name); err != nil {
			return err
		}
		one := result{At: time.Now(), Part: "failure", Workload: name, Program: ours, Round: 1, Scale: 1, Figures: figures, Verified: true}
		if len(figures) == 0 {
			one.Verified, one.Why = false, "go test -bench printed no figures, see "+file
		}
		if err := b.results.add(one); err != nil {
			return err
		}
	}
	return nil
}
