package pebblestore

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/understudy-streams/understudy/statestore"
)

const (
	// wideBytes of rows are worth a goroutine and a table of their own.
	wideBytes = 4 << 20
	// maxWide is how many goroutines write one batch at most.
	maxWide = 4
)

// width is how many goroutines are to write the rows of a store.
func (w *tableWriter) width(changes []statestore.Change) int {
	most := min(runtime.GOMAXPROCS(0), maxWide)
	if !w.urgent || most == 1 {
		return 1
	}
	size := 0
	for i := range changes {
		size += len(changes[i].Key) + len(changes[i].Value)
	}
	return max(1, min(most, size/w.d.wideMin))
}

// wide has n goroutines write rows, each those of a range of keys into tables of its own. All of them are ended, as tables of one batch must not overlap.
func (w *tableWriter) wide(n int, prefix []byte, changes []statestore.Change, order []uint32, taken func()) error {
	writers := []*tableWriter{w}
	for range n - 1 {
		other := w.d.tableWriter()
		other.compression = w.compression
		writers = append(writers, other)
	}
	errs, faults := make([]error, n), make([]any, n)
	var left atomic.Int32
	left.Store(int32(n))
	part := func(i int) {
		defer func() { faults[i] = recover() }()
		errs[i] = writers[i].write(prefix, changes, order[len(order)*i/n:len(order)*(i+1)/n])
		if errs[i] == nil && left.Add(-1) == 0 {
			taken()
		}
		errs[i] = errors.Join(errs[i], writers[i].finish())
	}
	var group sync.WaitGroup
	for i := 1; i < n; i++ {
		group.Go(func() { part(i) })
	}
	part(0)
	group.Wait()
	for _, v := range faults {
		if v != nil {
			panic(v) // where whoever has asked for the tables is guarded
		}
	}
	for _, other := range writers[1:] {
		w.paths = append(w.paths, other.paths...)
		other.paths = nil
		w.d.tables.Put(other)
	}
	return errors.Join(errs...)
}
