package shell

import "sync/atomic"

// pulse is what the user code that runs on one goroutine is about; the watchdog looks at it. It is another number for every unit: for that of
// a record its offset plus one and, in the last two bytes, its input, and for one without a record a negative number that counts down.
type pulse struct {
	n     atomic.Int64
	units int64 // without a record, counted down
}

const idle = int64(0) // a pulse: no user code runs

// beat is called before each unit of user code. It is one store, as it is done for each record.
func (p *pulse) beat(input int, offset int64) {
	if input < 0 {
		p.units--
		p.n.Store(p.units)
		return
	}
	p.n.Store((offset+1)<<16 | int64(input))
}

// rest says that no user code runs any more.
func (p *pulse) rest() {
	if p.n.Load() != idle {
		p.n.Store(idle)
	}
}
