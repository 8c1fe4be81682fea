package streamstest

import (
	"github.com/understudy-streams/understudy/task"
)

// Bench is what a test runs a topology on: a [*Driver] or a [*Cluster]. Inputs, outputs and stores are those of either.
type Bench interface {
	tb() TB
	pipe(topic string, key, value []byte, opts []PipeOption) error
	log(topic string) *topic
	specs() []*task.Spec
	shards(store string) []shard // of the tasks that run
}

var (
	_ Bench = (*Driver)(nil)
	_ Bench = (*Cluster)(nil)
)

func (d *Driver) tb() TB              { return d.t }
func (d *Driver) specs() []*task.Spec { return d.topology.Subtopologies }
