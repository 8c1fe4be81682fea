package task

// Call is the callback of a commit that the nodes of a worker have asked for. They are not the task's own, and may be at work: so their worker
// runs it, between its other items, and answers with Done. Those of one worker are run in the order of the calls.
type Call struct {
	Worker *Worker
	Item   *Item
}

func (Call) ownerAction() {}

// relay makes the callback of a worker one of the task's.
func (t *Task) relay(w *Worker, f func(error)) func(error) {
	return func(err error) {
		t.calling++
		t.calls = append(t.calls, Call{Worker: w, Item: &Item{Input: -1, StreamTime: t.streamTime, call: f, err: err}})
	}
}

// disown tells the callbacks of a result that is thrown away.
func (t *Task) disown(r *Result, err error) {
	for _, f := range r.callbacks {
		t.relay(r.worker, f)(err)
	}
}

// handOver hands items and callbacks over to those who run them.
func (o *Owner) handOver() {
	for i, c := range o.t.calls {
		o.do(c)
		o.t.calls[i] = Call{}
	}
	o.t.calls = o.t.calls[:0]
	if c := o.t.crew; c != nil {
		for i, r := range c.out {
			o.do(r)
			c.out[i] = Dispatch{}
		}
		c.out = c.out[:0]
	}
}
