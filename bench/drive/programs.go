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
	name    string
	command []string // the workload and its flags are appended
}

// contenders lists the programs as `run` beside the README builds them under dir.
func contenders(dir string) []program {
	return []program{
		{ours, []string{filepath.Join(dir, "bin", "understudy")}},
		{floor, []string{filepath.Join(dir, "bin", "floor")}},
		{franz, []string{filepath.Join(dir, "bin", "franz")}},
		{sarama, []string{filepath.Join(dir, "bin", "sarama")}},
		{ks, javaCommand(dir, 1024, 2048)},
		{goka, []string{filepath.Join(dir, "bin", "goka")}},
		{pc, javaClass(dir, "pc", 512, 1024)},
	}
}

// javaCommand is the Kafka Streams program with a heap of so many MiB at first and at most.
func javaCommand(dir string, initial, most int) []string { return javaClass(dir, "ks", initial, most) }

// javaClass is the program of a Maven module.
func javaClass(dir, module string, initial, most int) []string {
	return []string{
		"java", fmt.Sprintf("-Xms%dm", initial), fmt.Sprintf("-Xmx%dm", most), "-XX:+UseParallelGC", "-XX:+ExitOnOutOfMemoryError",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(dir, module, module+"-1.jar") + ":" + filepath.Join(dir, module, "libs", "*"), "bench.Program",
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
