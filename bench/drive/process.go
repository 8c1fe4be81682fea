package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running program under test, its output in a file.
type process struct {
	cmd     *exec.Cmd
	logFile string
	started time.Time
	exited  chan struct{}
}

func start(command []string, logFile string) (*process, error) {
	out, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{cmd: cmd, logFile: logFile, started: time.Now(), exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the state is in cmd.ProcessState
		close(p.exited)
	}()
	return p, nil
}

// stop ends the program with SIGTERM, after 40 s with SIGKILL. It says how long that took and whether the program ended as it should.
func (p *process) stop() (time.Duration, error) {
	asked := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when the process is gone, which the wait below sees
	select {
	case <-p.exited:
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return time.Since(asked), fmt.Errorf("did not end within 40 s of SIGTERM")
	}
	return time.Since(asked), nil
}

// ended says whether the process has ended by itself or otherwise.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// lastWords is the end of the program's output.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-300):])
}

// cpu is the user and system time the process has used, in seconds.
func (p *process) cpu() (float64, error) { return cpuOf(p.cmd.Process.Pid) }

// signal is for a program that is told when to begin and end its profiles.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // fails only when it has gone, which others see

// peakRSS is the largest resident memory so far, in MiB.
func (p *process) peakRSS() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kib)[0], 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmHWM of process %d", p.cmd.Process.Pid)
}
