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
	return p.end(syscall.SIGTERM, 40*time.Second)
}

// end asks the program to end with a signal, and kills it when it has not done so in time.
func (p *process) end(s syscall.Signal, within time.Duration) (time.Duration, error) {
	asked := time.Now()
	p.signal(s)
	select {
	case <-p.exited:
	case <-time.After(within):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return time.Since(asked), fmt.Errorf("did not end within %s of %s", within, name(s))
	}
	return time.Since(asked), nil
}

// name is the signal's as everybody knows it.
func name(s syscall.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGUSR1:
		return "SIGUSR1"
	default:
		return s.String()
	}
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

// used is the user and system time of the process so far, or in all once it has ended, in seconds.
func (p *process) used() float64 {
	if p.ended() {
		return (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds()
	}
	used, err := p.cpu()
	if err != nil {
		return 0 // it ends just now
	}
	return used
}

// signal sends a signal. That fails only when the process has gone, which others see.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

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
