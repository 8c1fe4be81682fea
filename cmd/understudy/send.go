package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/task"
)

// chunkBytes bounds a batch well below what topics take by default.
const chunkBytes = 256 << 10

// sender appends records to partitions, one batch at a time, and waits for all replicas. Batches are numbered, so that one which is sent
// again because its answer was lost is not there twice.
type sender struct {
	client *kafka.Client
	pid    int64
	epoch  int16
	known  bool // pid and epoch
	next   map[task.TopicPartition]int32
	conns  map[int32]*kafka.ProduceConn
}

func (s *sender) close() {
	for id, c := range s.conns {
		c.Close()
		delete(s.conns, id)
	}
}

// refused is an error for records that the broker will never take. Nothing of the batch was written.
type refused struct {
	tp   task.TopicPartition
	code kcode.Code
	says string
}

func (r *refused) Error() string {
	if r.says != "" {
		return fmt.Sprintf("%s takes no such record: %v: %s", r.tp, r.code, r.says)
	}
	return fmt.Sprintf("%s takes no such record: %v", r.tp, r.code)
}

// send appends a batch. Its error is *refused, or means that nobody knows whether the batch was written.
func (s *sender) send(ctx context.Context, tp task.TopicPartition, records []task.OutRecord) error {
	if err := s.identify(ctx); err != nil {
		return err
	}
	batch := kafka.ProduceBatch{
		TopicPartition: tp, ProducerID: s.pid, Epoch: s.epoch, FirstSequence: s.next[tp], Groups: []*task.Group{task.NewGroup(tp, records...)},
	}
	for began := time.Now(); ; {
		part, err := s.once(ctx, batch)
		if err == nil {
			switch part.Code {
			case kcode.None, kcode.DuplicateSequence:
				s.next[tp] += int32(len(records))
				return nil
			case kcode.MessageTooLarge, kcode.RecordListTooLarge, kcode.InvalidRecord, kcode.InvalidTimestamp:
				return &refused{tp: tp, code: part.Code, says: part.Message}
			case kcode.TopicAuthorizationFailed, kcode.ClusterAuthorization, kcode.PolicyViolation, kcode.OutOfOrderSequence, kcode.UnknownProducerID:
				return fmt.Errorf("write to %s: %w", tp, part.Code)
			}
			err = part.Code
		}
		if ctx.Err() != nil {
			return fmt.Errorf("write to %s: %w", tp, context.Cause(ctx))
		}
		if time.Since(began) > outside.Stillness {
			return fmt.Errorf("write to %s: given up after %v: %w", tp, outside.Stillness, err)
		}
		if err := outside.Sleep(ctx, outside.Pause); err != nil {
			return fmt.Errorf("write to %s: %w", tp, err)
		}
	}
}

// identify gets the id under which batches are numbered. A broker that has just started has none to give for a while.
func (s *sender) identify(ctx context.Context) (err error) {
	for began := time.Now(); !s.known; {
		s.pid, s.epoch, err = s.client.InitProducerID(ctx)
		if err == nil {
			s.known, s.next, s.conns = true, map[task.TopicPartition]int32{}, map[int32]*kafka.ProduceConn{}
			break
		}
		again := errors.Is(err, kcode.CoordinatorLoadInProgress) || errors.Is(err, kcode.CoordinatorNotAvailable) || errors.Is(err, kcode.NotCoordinator)
		if !again || time.Since(began) > outside.Stillness {
			return err
		}
		if err := outside.Sleep(ctx, outside.Pause); err != nil {
			return err
		}
	}
	return nil
}

// once asks the leader once. What is not answered may have been written.
func (s *sender) once(ctx context.Context, batch kafka.ProduceBatch) (kafka.ProducedPart, error) {
	l, err := outside.Leader(ctx, s.client, batch.TopicPartition)
	if err != nil {
		return kafka.ProducedPart{}, err
	}
	conn := s.conns[l.Leader]
	if conn == nil {
		if conn, err = s.client.DialProduce(ctx, l.Leader); err != nil {
			return kafka.ProducedPart{}, err
		}
		s.conns[l.Leader] = conn
	}
	type answer struct {
		res kafka.ProduceResponse
		err error
	}
	got := make(chan answer, 1)
	req := kafka.ProduceRequest{Acks: -1, Timeout: 10 * time.Second, Batches: []kafka.ProduceBatch{batch}}
	a := answer{err: conn.Produce(req, func(r kafka.ProduceResponse, err error) { got <- answer{r, err} })}
	if a.err == nil {
		select {
		case a = <-got:
		case <-ctx.Done():
			a.err = context.Cause(ctx)
		}
	}
	if a.err == nil && len(a.res.Parts) != 1 {
		a.err = errors.New("the answer is not about the batch that was sent")
	}
	if a.err != nil {
		conn.Close()
		delete(s.conns, l.Leader)
		return kafka.ProducedPart{}, a.err
	}
	return a.res.Parts[0], nil
}
