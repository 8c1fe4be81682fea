package streamstest

import "github.com/understudy-streams/understudy/task"

// Brokers is how the brokers are, as a task that writes to them sees it.
type Brokers uint8

const (
	// BrokersUp take and acknowledge everything.
	BrokersUp Brokers = iota
	// BrokersSilent take everything, and their acknowledgements are lost: nothing is committed meanwhile.
	BrokersSilent
	// BrokersDown take nothing.
	BrokersDown
)

// SetBrokers changes how the brokers are. What waits when they are up again is written and acknowledged then, unless Restart came first.
func (d *Driver) SetBrokers(b Brokers) {
	d.t.Helper()
	was := d.brokers
	d.brokers = b
	for _, r := range d.runners {
		r.catchUp(was)
	}
	d.settle()
	d.check()
}

// send does with effects what the brokers allow, and reports whether they are acknowledged.
func (r *runner) send(e *task.Effects) bool {
	if r.d.brokers != BrokersDown {
		r.write(e)
	}
	if r.d.brokers != BrokersUp {
		r.held = append(r.held, e)
		return false
	}
	return true
}

// catchUp writes and acknowledges what the brokers have not until now.
func (r *runner) catchUp(was Brokers) {
	if was == BrokersDown && r.d.brokers != BrokersDown {
		for _, e := range r.held {
			r.write(e)
		}
	}
	if r.d.brokers == BrokersUp && len(r.held) > 0 {
		last := r.held[len(r.held)-1].Seq
		r.held = nil
		sealed := r.sealed
		r.sealed = nil
		r.step(task.Acked{Seq: last})
		if sealed != nil {
			r.step(task.Committed{Err: r.commit(sealed)})
		}
	}
}
