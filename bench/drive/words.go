package main

import (
	"bufio"
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// word is a line that a program prints about itself: WHAT at=UNIXMS name=value ...
type word struct {
	what    string
	at      int64
	process int // the start of a program that said it: an instance that is started again is another process
	details map[string]string
}

// number is a detail that is a number, or 0.
func (w word) number(name string) int64 {
	n, _ := strconv.ParseInt(w.details[name], 10, 64)
	return n
}

// words are those in the output of a process, other lines left out.
func words(output []byte, process int) []word {
	var all []word
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "at=") {
			continue
		}
		w := word{what: fields[0], process: process, details: map[string]string{}}
		for _, f := range fields[1:] {
			if name, value, ok := strings.Cut(f, "="); ok {
				w.details[name] = value
			}
		}
		w.at = w.number("at")
		all = append(all, w)
	}
	return all
}

// inOrder merges the words of all processes by time.
func inOrder(all []word) []word {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b word) int { return cmp.Compare(a.at, b.at) })
	return all
}

// needless counts the tasks that stopped in a process and went on in the same one without having run elsewhere: pauses for nothing, and how many
// seconds they took in all. A process that is started anew is another one.
func needless(all []word, w window) (n int, seconds float64) {
	type pause struct {
		process int
		at      int64
	}
	stopped := map[string]pause{}
	for _, one := range inOrder(all) {
		if one.what != "TASK" {
			continue
		}
		id := one.details["task"]
		switch one.details["state"] {
		case "releasing", "released", "closing", "closed":
			if _, ok := stopped[id]; !ok {
				stopped[id] = pause{one.process, one.at}
			}
		case "running":
			if p, ok := stopped[id]; ok && p.process == one.process && p.at > w.from && p.at <= w.to {
				n++
				seconds += float64(one.at-p.at) / 1000
			}
			delete(stopped, id)
		}
	}
	return n, seconds
}

// happened is how often that was said in the window.
func happened(what string, all []word, w window) (n int) {
	for _, one := range all {
		if one.what == what && one.at > w.from && one.at <= w.to {
			n++
		}
	}
	return n
}

// restored is a restore that a process has told of.
type restored struct {
	word
	active bool // of a task that was to run, and stood still meanwhile
}

// restoresIn are those that ended in the window. A program that does not tell the role of the task only tells of active ones.
func restoresIn(all []word, w window) []restored {
	var found []restored
	for _, one := range inOrder(all) {
		if one.what == "RESTORED" && one.at > w.from && one.at <= w.to {
			role, tells := one.details["role"]
			found = append(found, restored{one, !tells || role == "active"})
		}
	}
	return found
}

// cold counts the restores of active tasks that began with nothing and read at least so many records; a task that reads what it had missed is warm.
func cold(all []restored, records int64) int {
	n := 0
	for _, r := range all {
		if r.active && r.number("start") <= 0 && r.number("records") >= records {
			n++
		}
	}
	return n
}

// learning is the time from the beginning of the first of the restores of these processes to the end of the last, in seconds; only those count
// that ended before the first task ran. False if there is none.
func learning(all []restored, processes []int, before int64) (float64, bool) {
	var from, to int64
	for _, r := range all {
		if !slices.Contains(processes, r.process) || r.at > before {
			continue
		}
		if began := r.at - r.number("took_ms"); from == 0 || began < from {
			from = began
		}
		to = max(to, r.at)
	}
	return float64(to-from) / 1000, from > 0
}
