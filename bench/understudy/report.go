package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/understudy-streams/understudy/streams"
)

// restores adds up what has been restored and says so, in the form that the harness reads, each time the application runs.
type restores struct {
	records    int64
	begin, end time.Time
}

// listener's functions are called on one goroutine.
func (r *restores) listener() streams.Listener {
	return streams.Listener{
		Restore: func(p streams.RestoreProgress) {
			if r.begin.IsZero() {
				r.begin = time.Now()
			}
			if p.Done {
				r.records += p.Records
				r.end = time.Now()
			}
		},
		State: func(s streams.State) {
			if s == streams.StateRunning {
				fmt.Printf("RUNNING at=%d restored=%d restore_ms=%d\n", time.Now().UnixMilli(), r.records, r.end.Sub(r.begin).Milliseconds())
			}
		},
	}
}

// profileOnSignal writes a CPU profile of the time between SIGUSR1 and SIGUSR2, and a heap profile at its end.
func profileOnSignal(prefix string) {
	begin, end := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	signal.Notify(end, syscall.SIGUSR2)
	go func() {
		<-begin
		if err := profile(prefix, end); err != nil {
			log.Print("profile: ", err)
		}
	}()
}

func profile(prefix string, end <-chan os.Signal) error {
	cpu, err := os.Create(prefix + ".cpu")
	if err != nil {
		return err
	}
	defer cpu.Close()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	<-end
	pprof.StopCPUProfile()
	heap, err := os.Create(prefix + ".heap")
	if err != nil {
		return err
	}
	defer heap.Close()
	runtime.GC() // what lives, rather than what lay about
	return pprof.WriteHeapProfile(heap)
}
