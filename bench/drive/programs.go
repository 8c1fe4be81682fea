package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// program is one contender.
type program struct {
	name      string
	command   []string // the workload and its flags are appended
	workloads []string // empty: all
}

// ours is what the others are compared with.
const ours = "understudy"

// contenders lists the programs as `run` beside the README builds them under dir.
func contenders(dir string) []program {
	return []program{
		{name: ours, command: []string{filepath.Join(dir, "bin", "understudy")}},
		{name: "franz-go", command: []string{filepath.Join(dir, "bin", "franz")}, workloads: []string{"map"}},
		{name: "kafka-streams", command: []string{
			"java", "-Xms1g", "-Xmx2g", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", filepath.Join(dir, "ks", "ks-1.jar") + ":" + filepath.Join(dir, "ks", "libs", "*"), "bench.Program",
		}},
		{name: "goka", command: []string{filepath.Join(dir, "bin", "goka")}},
	}
}

// choose returns the named contenders, all of them runnable.
func choose(all []program, names []string) ([]program, error) {
	var chosen []program
	for _, name := range names {
		i := slices.IndexFunc(all, func(p program) bool { return p.name == name })
		if i < 0 {
			var known []string
			for _, p := range all {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("no program %q; there are %s", name, strings.Join(known, ", "))
		}
		if _, err := exec.LookPath(all[i].command[0]); err != nil {
			return nil, fmt.Errorf("%s cannot be started (leave it out with -programs): %w", name, err)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (p program) does(workload string) bool {
	return len(p.workloads) == 0 || slices.Contains(p.workloads, workload)
}
