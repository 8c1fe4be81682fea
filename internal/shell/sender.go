package shell

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// sender runs the engine.Sender on one goroutine, and beneath it a producer goroutine per broker.
type sender struct {
	r         *Runtime
	box       *mailbox[engine.SenderEvent]
	wake      *wakeup
	machine   *engine.Sender
	producers map[int32]*producer
}

func newSender(r *Runtime) *sender {
	return &sender{
		r: r, box: newMailbox[engine.SenderEvent](), wake: newWakeup(r.clock.now), machine: engine.NewSender(r.cfg.Sender), producers: map[int32]*producer{},
	}
}

func (s *sender) start() { s.r.request(s.run) }

func (s *sender) put(ev engine.SenderEvent) { s.box.put(ev) }

func (s *sender) close() { s.box.close() }

func (s *sender) run(ctx context.Context) {
	defer s.wake.stop()
	defer s.disconnect()
	var evs []engine.SenderEvent
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.box.signal:
		case <-s.wake.timer.C:
			s.wake.fired()
		}
		evs = s.box.take(evs)
		for _, ev := range evs {
			s.step(ev)
		}
		if s.wake.due(s.r.clock.now()) {
			s.step(engine.SenderTick{})
		}
	}
}

func (s *sender) step(ev engine.SenderEvent) {
	for _, a := range s.machine.Step(s.r.clock.now(), ev) {
		switch a := a.(type) {
		case engine.Produce:
			s.produce(a)
		case engine.AskProducerID:
			s.r.request(s.askProducerID)
		case engine.RefreshLeaders:
			s.r.request(func(ctx context.Context) { s.leaders(ctx, a.Topics) })
		case engine.EffectsAcked:
			fail.Point("acks.before")
			s.r.tasks.tell(a.Task, a.Epoch, task.Acked{Seq: a.Seq})
			s.r.post(engine.EffectsDone{Acked: a})
			fail.Point("acks.after")
		case engine.ProduceFailed:
			s.r.post(engine.TaskFailed{Task: a.Task, Epoch: a.Epoch, Err: a.Err})
		case engine.DisconnectProduce:
			s.disconnect()
		case engine.SenderWake:
			s.wake.set(a.At)
		}
	}
}

func (s *sender) disconnect() {
	for id, p := range s.producers {
		p.close()
		delete(s.producers, id)
	}
}

func (s *sender) produce(a engine.Produce) {
	if p := s.producers[a.Broker]; p != nil && p.box.put(a) {
		return
	}
	// Those of brokers that are gone must not pile up.
	maps.DeleteFunc(s.producers, func(_ int32, p *producer) bool { return p.box.closed() })
	p := newProducer(s, a.Broker)
	s.producers[a.Broker] = p
	p.box.put(a)
	s.r.request(func(context.Context) { p.run() })
}

func (s *sender) askProducerID(ctx context.Context) {
	id, epoch, err := s.r.cfg.Client.InitProducerID(ctx)
	if err != nil && ctx.Err() == nil {
		s.r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: "producer id", Err: err})
	}
	fail.Point("producer.id")
	s.put(engine.ProducerIDGiven{ID: id, Epoch: epoch, Err: err})
}

func (s *sender) leaders(ctx context.Context, topics []string) {
	md, err := s.r.cfg.Client.Metadata(ctx, topics)
	ev := engine.LeadersKnown{Leaders: map[task.TopicPartition]int32{}, Err: err}
	if err == nil {
		for name, t := range md.Topics {
			for i, p := range t.Partitions {
				ev.Leaders[task.TopicPartition{Topic: name, Partition: int32(i)}] = p.Leader
			}
		}
	} else if ctx.Err() == nil {
		s.r.noticeLater(engine.Notice{Kind: engine.NoticeRetry, What: "leaders of sink topics", Err: err})
	}
	s.put(ev)
}

// producer is the produce connection to one broker. It encodes and writes on its own goroutine; answers come on the connection's.
type producer struct {
	s      *sender
	broker int32
	idle   time.Duration
	box    *mailbox[engine.Produce]
	ctx    context.Context
	cancel context.CancelFunc
	conn   *kafka.ProduceConn
}

func newProducer(s *sender, broker int32) *producer {
	p := &producer{s: s, broker: broker, idle: cmp.Or(s.r.cfg.IdleFor, idleFor), box: newMailbox[engine.Produce]()}
	p.ctx, p.cancel = context.WithCancel(s.r.work)
	return p
}

// close ends it: nothing more is written, what is being written is cut off.
func (p *producer) close() {
	p.box.close()
	p.cancel()
}

func (p *producer) run() {
	defer p.drop()
	defer p.box.close()
	defer p.cancel()
	idle := time.NewTimer(p.idle)
	defer idle.Stop()
	var reqs []engine.Produce
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.box.signal:
		case <-idle.C:
			if p.box.retire() {
				return
			}
		}
		idle.Reset(p.idle)
		reqs = p.box.take(reqs)
		for _, req := range reqs {
			if p.ctx.Err() != nil {
				return // a lease has ended: not even what was taken already may be written
			}
			p.send(req)
		}
	}
}

// send writes a request. A connection that has died since it was used last is replaced at once.
func (p *producer) send(a engine.Produce) {
	req := kafka.ProduceRequest{Acks: -1, Timeout: a.Timeout, Batches: make([]kafka.ProduceBatch, len(a.Batches))}
	for i, b := range a.Batches {
		req.Batches[i] = kafka.ProduceBatch{
			TopicPartition: b.TopicPartition, ProducerID: b.ProducerID, Epoch: b.Epoch, FirstSequence: b.FirstSequence,
			Codec: p.s.r.cfg.Codec, Groups: b.Groups,
		}
	}
	fail.Point("produce.before")
	old := p.conn != nil
	err := p.write(a.Request, req)
	if err != nil && old && p.ctx.Err() == nil {
		err = p.write(a.Request, req)
	}
	if err != nil {
		p.answer(a.Request, kafka.ProduceResponse{}, err)
	}
}

// write hands a request to the connection. If it returns an error, nothing was sent.
func (p *producer) write(request uint64, req kafka.ProduceRequest) error {
	if p.conn == nil {
		conn, err := p.s.r.cfg.Client.DialProduce(p.ctx, p.broker)
		if err != nil {
			return err
		}
		p.conn = conn
	}
	stop := context.AfterFunc(p.ctx, p.conn.Close)
	defer stop()
	err := p.conn.Produce(req, func(res kafka.ProduceResponse, err error) { p.answer(request, res, err) })
	if err != nil {
		p.drop()
	}
	return err
}

func (p *producer) drop() {
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

func (p *producer) answer(request uint64, res kafka.ProduceResponse, err error) {
	p.s.r.troubled(p.ctx, fmt.Sprintf("produce to broker %d", p.broker), err)
	ev := engine.Produced{Request: request, Err: err}
	for _, part := range res.Parts {
		if part.Code == kcode.NotEnoughReplicas || part.Code == kcode.NotEnoughReplicasAppended {
			p.s.r.troubled(p.ctx, "produce to topic "+part.Topic, part.Code)
		}
		ev.Parts = append(ev.Parts, engine.ProducedPart{
			TopicPartition: part.TopicPartition, Code: part.Code, BaseOffset: part.BaseOffset, Message: part.Message,
		})
	}
	p.s.put(ev)
}
