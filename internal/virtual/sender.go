package virtual

import (
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// sender is the sender's goroutine and the produce connections beneath it, one per broker.
type sender struct {
	p       *Process
	machine *engine.Sender
	box     lane
	wake    wakeup
	links   map[int32]*Link
}

func (s *sender) init(p *Process) {
	*s = sender{p: p, machine: engine.NewSender(p.cfg.Sender), links: map[int32]*Link{}}
}

func (s *sender) put(ev engine.SenderEvent) {
	s.p.World.send(&s.box, s.p.hop(), s.p, func() { s.step(ev) })
}

func (s *sender) step(ev engine.SenderEvent) {
	p := s.p
	for _, a := range s.machine.Step(p.World.Now, ev) {
		p.watch.SenderAction(a)
		switch a := a.(type) {
		case engine.Produce:
			s.produce(a)
		case engine.AskProducerID:
			s.askProducerID()
		case engine.RefreshLeaders:
			s.refresh(a.Topics)
		case engine.EffectsAcked:
			p.tellTask(a.Task, a.Epoch, task.Acked{Seq: a.Seq})
			p.Tell(engine.EffectsDone{Acked: a})
		case engine.ProduceFailed:
			p.Tell(engine.TaskFailed{Task: a.Task, Epoch: a.Epoch, Err: a.Err})
		case engine.DisconnectProduce:
			for _, node := range slices.Sorted(maps.Keys(s.links)) {
				s.links[node].Close()
				delete(s.links, node)
			}
		case engine.SenderWake:
			s.wake.set(p.World, a.At, p, func() { s.step(engine.SenderTick{}) })
		}
	}
}

func (s *sender) produce(a engine.Produce) {
	l := s.links[a.Broker]
	if l == nil || l.dead {
		l = s.p.dial(a.Broker)
		s.links[a.Broker] = l
	}
	req := modelbroker.ProduceRequest{}
	for _, b := range a.Batches {
		batch := modelbroker.ProduceBatch{TopicPartition: b.TopicPartition, ProducerID: b.ProducerID, Epoch: b.Epoch, FirstSequence: b.FirstSequence}
		for _, g := range b.Groups {
			batch.Records = append(batch.Records, g.Records()...)
		}
		req.Batches = append(req.Batches, batch)
	}
	l.Call(req.Clone(), func(r modelbroker.Response, err error) {
		ev := engine.Produced{Request: a.Request, Err: err}
		if err == nil {
			for _, part := range r.(modelbroker.ProduceResponse).Parts {
				ev.Parts = append(ev.Parts, engine.ProducedPart{TopicPartition: part.TopicPartition, Code: part.Code, BaseOffset: part.BaseOffset})
			}
		}
		s.put(ev)
	})
	l.limit(30 * time.Second)
}

func (s *sender) askProducerID() {
	s.p.ask(modelbroker.InitProducerIDRequest{}, func(r modelbroker.Response, err error) {
		ev := engine.ProducerIDGiven{Err: err}
		if err == nil {
			id := r.(modelbroker.InitProducerIDResponse)
			ev.ID, ev.Epoch = id.ProducerID, id.Epoch
		}
		s.put(ev)
	})
}

func (s *sender) refresh(topics []string) {
	s.p.ask(modelbroker.MetadataRequest{Topics: topics}, func(r modelbroker.Response, err error) {
		ev := engine.LeadersKnown{Err: err, Leaders: map[task.TopicPartition]int32{}}
		if err == nil {
			by, _ := leaders(r.(modelbroker.MetadataResponse))
			for tp, l := range by {
				ev.Leaders[tp] = l.Broker
			}
		}
		s.put(ev)
	})
}
