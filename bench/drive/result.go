package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// figure names something that is measured.
type figure string

// "Steady" leaves out the first quarter of the input, and with it the start of the program.
const (
	cpu      figure = "cpu_us"       // CPU microseconds a record, steady
	cpuWhole figure = "cpu_us_whole" // from the start of the process on
	rate     figure = "records_per_s"
	rss      figure = "peak_rss_mib"
	updates  figure = "updates_out" // records in the output
	first    figure = "first_s"     // from the start of the process to the first output
	running  figure = "running_s"   // from the start of the process until everything is restored and runs
	p50      figure = "p50_ms"
	p99      figure = "p99_ms"
	longest  figure = "max_ms"
	heap     figure = "heap_mib" // what a JVM was given
)

// result is one run of one program.
type result struct {
	At       time.Time          `json:"at"`
	Part     string             `json:"part"`
	Workload string             `json:"workload"`
	Program  string             `json:"program"`
	Round    int                `json:"round"`
	Records  int                `json:"records"`
	Scale    float64            `json:"scale"`
	Command  string             `json:"command,omitempty"`
	Figures  map[figure]float64 `json:"figures,omitempty"`
	Notes    []string           `json:"notes,omitempty"` // what the figures come from, for the reader of the file

	OtherCores float64 `json:"other_cores"`         // kept busy by other programs meanwhile
	Disturbed  bool    `json:"disturbed,omitempty"` // too many
	Void       string  `json:"void,omitempty"`      // why the harness could not tell anything
	Verified   bool    `json:"verified"`
	Why        string  `json:"why,omitempty"` // of a program that is wrong
}

// failed says that the program is to blame.
func (r result) failed() bool { return r.Void == "" && !r.Verified }

// thrownOut says that the run tells nothing, and was repeated if there was time.
func (r result) thrownOut() bool { return r.Void != "" || (r.Disturbed && r.Verified) }

func (r result) String() string {
	head := fmt.Sprintf("%s, round %d, %-13s ", r.Workload, r.Round, r.Program)
	switch {
	case r.Void != "":
		return head + "VOID: " + r.Void
	case !r.Verified:
		return head + "FAILED: " + r.Why
	}
	for _, c := range shown {
		if v, ok := r.Figures[c.figure]; ok {
			head += fmt.Sprintf(" %s %s", c.figure, c.print(v))
		}
	}
	for _, f := range rebalanceRows {
		if v, ok := r.Figures[f]; ok {
			head += fmt.Sprintf(" %s %s", f, rebalanceTitles[f].print(v))
		}
	}
	head += failureText(r.Figures)
	head += fmt.Sprintf(" others %.2f", r.OtherCores)
	if r.Disturbed {
		head += ", DISTURBED"
	}
	return head
}

// results is a file of results, a line each, that outlives what happens later.
type results struct {
	file string
	all  []result
}

func openResults(file string) (*results, error) {
	r := &results{file: file}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one result
		if err := json.Unmarshal(lines.Bytes(), &one); err == nil && one.Part != "" { // half a line is what a crash leaves
			r.all = append(r.all, one)
		}
	}
	return r, lines.Err()
}

func (r *results) add(one result) error {
	r.all = append(r.all, one)
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	err = json.NewEncoder(f).Encode(one)
	return errors.Join(err, f.Close())
}

// forget drops the results of a workload, because it is measured anew: what is compared belongs to one sitting.
func (r *results) forget(workload string) error {
	r.all = slices.DeleteFunc(r.all, func(one result) bool { return one.Workload == workload })
	tmp := r.file + ".new"
	out, err := os.Create(tmp)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	for _, one := range r.all {
		err = errors.Join(err, lines.Encode(one))
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, r.file)
}
