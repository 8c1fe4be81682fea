package streamstest

import (
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
)

// network is what a cluster sees of what goes over the network.
type network Cluster

func (n *network) Message(l *virtual.Link, way virtual.Way, msg any) {
	c := (*Cluster)(n)
	c.trace.Message(c.scene(of(l.Process)), l, way, msg)
}

func (n *network) Request(*virtual.Call) {}

// Answer notes what was appended to topics. A batch that is sent again, and is there already, has the offsets that it got first.
func (n *network) Answer(call *virtual.Call, r modelbroker.Response) {
	c := (*Cluster)(n)
	produced, ok := r.(modelbroker.ProduceResponse)
	if !ok {
		return
	}
	batches := call.Req.(modelbroker.ProduceRequest).Batches
	for i, part := range produced.Parts {
		l := c.log(part.Topic)
		if part.Code != kcode.None || part.BaseOffset < int64(len(l.partitions[part.Partition])) {
			continue
		}
		for _, rec := range batches[i].Records {
			l.append(part.Partition, rec)
		}
	}
}

func (n *network) Saw(virtual.Trouble) {}

// of is the process of a member that the machines belong to, nil for those of nobody.
func of(p *virtual.Process) *process {
	if p == nil {
		return nil
	}
	return p.Watch().(*process)
}

func (c *Cluster) scene(p *process) virtual.Scene {
	who := "-"
	if p != nil {
		who = p.name
	}
	return virtual.Scene{At: c.since(c.world.Now), Who: who}
}
