package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// brokerLog is the logs of the brokers, in which the group's coordinator tells of rebalances (bench/log4j2.xml has it do so).
type brokerLog struct{ files []string }

// size is the place in each log where what happens next will be.
func (l brokerLog) size() []int64 {
	places := make([]int64, len(l.files))
	for i, file := range l.files {
		if info, err := os.Stat(file); err == nil {
			places[i] = info.Size()
		}
	}
	return places
}

// between is the part of the logs between two places, one after the other.
func (l brokerLog) between(from, to []int64) (string, error) {
	var all strings.Builder
	for i, file := range l.files {
		text, err := piece(file, from[i], to[i])
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

func piece(file string, from, to int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, from, to-from))
}

var (
	stabilized = regexp.MustCompile(`Stabilized group (\S+) generation (\d+)`)
	preparing  = regexp.MustCompile(`Preparing to rebalance group (\S+) in state .*?\(reason: (.*)\)`)
	isReady    = regexp.MustCompile(`\b(ready|is learned)\b`)
	leading    = regexp.MustCompile(`Assignment received from leader (\S+) for group (\S+) for generation`)
	byClient   = regexp.MustCompile(`client reason: (.*?)\)?$`)
)

// rounds are the generations that the group got to in this part of the log, each counted once.
func rounds(text, group string) int {
	var generations []string
	for _, m := range stabilized.FindAllStringSubmatch(text, -1) {
		if m[1] == group && !slices.Contains(generations, m[2]) {
			generations = append(generations, m[2])
		}
	}
	return len(generations)
}

// reasons are why the group began each of its rebalances: the client's own words where it gave any.
func reasons(text, group string) []string {
	var all []string
	for line := range strings.Lines(text) {
		m := preparing.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[1] != group {
			continue
		}
		reason := m[2]
		if own := byClient.FindStringSubmatch(reason); own != nil && own[1] != "not provided" && own[1] != "" {
			reason = own[1]
		}
		all = append(all, reason)
	}
	return all
}

// batches is how many rebalances were begun because learners had become ready.
func batches(reasons []string) int {
	n := 0
	for _, r := range reasons {
		if isReady.MatchString(r) {
			n++
		}
	}
	return n
}

// leader is the member that made the group's last assignment, or "".
func leader(text, group string) string {
	member := ""
	for _, m := range leading.FindAllStringSubmatch(text, -1) {
		if m[2] == group {
			member = m[1]
		}
	}
	return member
}

// counted is the rounds of the group between two places, and their reasons.
func (l brokerLog) counted(from, to []int64, group string) (int, []string, error) {
	if len(l.files) == 0 {
		return 0, nil, fmt.Errorf("there is no log of the broker")
	}
	text, err := l.between(from, to)
	return rounds(text, group), reasons(text, group), err
}
