package main

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
)

// profiler writes a CPU profile of the time between SIGUSR1 and SIGUSR2, and a heap profile at its end.
type profiler struct {
	prefix string
	closed chan struct{}
	ended  sync.WaitGroup
	err    error
}

func newProfiler(prefix string) *profiler {
	p := &profiler{prefix: prefix, closed: make(chan struct{})}
	begin, end := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	signal.Notify(end, syscall.SIGUSR2)
	p.ended.Go(func() {
		select {
		case <-begin:
			p.err = p.record(end)
		case <-p.closed:
		}
	})
	return p
}

// close ends a profile that is being written, and waits for it.
func (p *profiler) close() error {
	close(p.closed)
	p.ended.Wait()
	return p.err
}

func (p *profiler) record(end <-chan os.Signal) error {
	cpu, err := os.Create(p.prefix + ".cpu")
	if err != nil {
		return err
	}
	defer cpu.Close()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	select {
	case <-end:
	case <-p.closed:
	}
	pprof.StopCPUProfile()
	heap, err := os.Create(p.prefix + ".heap")
	if err != nil {
		return err
	}
	runtime.GC() // what lives, rather than what lay about
	return errors.Join(pprof.WriteHeapProfile(heap), heap.Close())
}
