package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// maxUnanswered is how many requests may wait for their answer on one connection. The broker serves them one after the other, and keeps only
// the last five batches per producer and partition to recognize a repetition; callers bound themselves below this.
const maxUnanswered = 64

// ProduceConn is a private connection for Produce. Requests are pipelined: Produce returns when the request is written. One goroutine calls
// Produce; Close may be called from any but the callbacks.
type ProduceConn struct {
	data    *dataConn
	encoder encoder
	order   []int // scratch: batches by topic
	ended   chan struct{}

	mu      sync.Mutex // held to hand over a call or to close
	calls   chan produceCall
	closed  bool
	failMu  sync.Mutex
	failure error // the first one, which ends the connection
}

// produceCall is a request that waits for its answer.
type produceCall struct {
	corr   int32
	parts  []task.TopicPartition
	wait   time.Duration // for the answer, from the one before it on
	silent bool          // nothing will be answered
	done   func(ProduceResponse, error)
}

// DialProduce connects to the broker with that id. See DialFetch for brokers that limit the life of a session.
func (c *Client) DialProduce(ctx context.Context, broker int32) (*ProduceConn, error) {
	d, err := c.dialData(ctx, broker, keyProduce, versionProduce, "Produce")
	if err != nil {
		return nil, err
	}
	p := &ProduceConn{data: d, ended: make(chan struct{}), calls: make(chan produceCall, maxUnanswered)}
	go p.answers()
	return p, nil
}

// Close closes the connection at once, gives every request without answer an error with ErrClosed in its chain, and waits until the callbacks
// have returned.
func (p *ProduceConn) Close() {
	_ = p.fail(ErrClosed)
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.calls)
	}
	p.mu.Unlock()
	<-p.ended
	p.data.conn.close()
}

// Produce encodes the request, writes it and returns; what it was given may then be used again. If it returns an error, nothing was sent and
// done is not called. Otherwise done is called once, from another goroutine and in the order of the requests, with the answer or with the
// error that ended the connection; it must not block for long and not call Close.
func (p *ProduceConn) Produce(req ProduceRequest, done func(ProduceResponse, error)) error {
	if err := p.failed(); err != nil {
		return err
	}
	if err := p.encode(req); err != nil {
		return err
	}
	now := time.Now()
	call := produceCall{corr: p.data.corr, wait: req.Timeout + p.data.timeout, silent: req.Acks == 0, done: done}
	call.parts = make([]task.TopicPartition, len(req.Batches))
	for i := range req.Batches {
		call.parts[i] = req.Batches[i].TopicPartition
	}
	if call.silent {
		if err := p.data.send(now, call.wait); err != nil {
			return p.fail(err)
		}
		return p.hand(call)
	}
	if err := p.hand(call); err != nil {
		return err
	}
	if err := p.data.send(now, call.wait); err != nil {
		_ = p.fail(err) // told to done
	}
	fail.Point("produce.written")
	return nil
}

// hand gives a call to the goroutine that waits for answers.
func (p *ProduceConn) hand(call produceCall) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.failed()
	}
	p.calls <- call
	return nil
}

// fail ends the connection. The first failure is the one that everybody is told.
func (p *ProduceConn) fail(err error) error {
	p.failMu.Lock()
	defer p.failMu.Unlock()
	if p.failure == nil {
		p.failure = p.data.fail("Produce", err)
	}
	return p.failure
}

func (p *ProduceConn) failed() error {
	p.failMu.Lock()
	defer p.failMu.Unlock()
	return p.failure
}

// encode puts the request into the buffer.
func (p *ProduceConn) encode(req ProduceRequest) error {
	if len(req.Batches) == 0 {
		return errors.New("kafka: produce request without a batch")
	}
	p.order = p.order[:0]
	for i := range req.Batches {
		p.order = append(p.order, i)
	}
	slices.SortFunc(p.order, func(a, b int) int { return req.Batches[a].Compare(req.Batches[b].TopicPartition) })
	d := p.data
	d.begin(keyProduce, versionProduce)
	b := appendInt16(d.buf, -1) // no transaction
	b = appendInt16(b, req.Acks)
	b = appendInt32(b, int32(req.Timeout.Milliseconds()))
	topics := len(b)
	b = appendInt32(b, 0)
	n := int32(0)
	var err error
	for rest := p.order; len(rest) > 0; n++ {
		same := 1
		for same < len(rest) && req.Batches[rest[same]].Topic == req.Batches[rest[0]].Topic {
			same++
		}
		if b, err = p.encodeTopic(b, req.Batches, rest[:same]); err != nil {
			return err
		}
		rest = rest[same:]
	}
	putInt32(b[topics:], n)
	d.buf = b
	return nil
}

// encodeTopic appends the batches of one topic, sorted by partition.
func (p *ProduceConn) encodeTopic(b []byte, batches []ProduceBatch, order []int) ([]byte, error) {
	b = appendString(b, batches[order[0]].Topic)
	b = appendInt32(b, int32(len(order)))
	for i, j := range order {
		batch := &batches[j]
		if i > 0 && batches[order[i-1]].Partition == batch.Partition {
			return b, fmt.Errorf("kafka: two batches for %s in one request: send the second in the next", batch.TopicPartition)
		}
		b = appendInt32(b, batch.Partition)
		size := len(b)
		b = appendInt32(b, 0)
		var err error
		if b, err = p.encoder.appendBatch(b, batch); err != nil {
			return b, err
		}
		putInt32(b[size:], int32(len(b)-size-4))
	}
	return b, nil
}

// answers reads the answers in the order of the requests, until Close.
func (p *ProduceConn) answers() {
	defer close(p.ended)
	for call := range p.calls {
		res, err := p.answer(call)
		fail.Point("produce.answered")
		call.done(res, err)
	}
}

func (p *ProduceConn) answer(call produceCall) (ProduceResponse, error) {
	if err := p.failed(); err != nil && !call.silent {
		return ProduceResponse{}, err
	}
	if call.silent {
		return unanswered(call.parts), nil
	}
	if err := p.data.nc.SetReadDeadline(time.Now().Add(call.wait)); err != nil {
		return ProduceResponse{}, p.fail(err)
	}
	f := &p.data.frame
	f.open(call.corr, maxAnswer)
	res := readProduced(f, call.parts)
	if err := f.close(); err != nil {
		return ProduceResponse{}, p.fail(err)
	}
	return res, nil
}

// unanswered is the response to a request that asks for no acknowledgement.
func unanswered(parts []task.TopicPartition) ProduceResponse {
	var res ProduceResponse
	for _, tp := range parts {
		res.Parts = append(res.Parts, ProducedPart{TopicPartition: tp, BaseOffset: -1})
	}
	return res
}

// readProduced reads the body of an answer and puts its parts into the order of the request. An error is left in the frame.
func readProduced(f *frame, parts []task.TopicPartition) ProduceResponse {
	res := ProduceResponse{Parts: make([]ProducedPart, len(parts))}
	seen := 0
	var scratch [256]byte
	for range f.count(6) {
		topic := f.str(scratch[:0])
		for range f.count(36) {
			part := readProducedPart(f)
			i := slices.IndexFunc(parts, func(tp task.TopicPartition) bool { return tp.Partition == part.Partition && tp.Topic == string(topic) })
			if i < 0 || res.Parts[i].Topic != "" {
				f.malformed("partition %s-%d was not asked for, or is there twice", topic, part.Partition)
				return ProduceResponse{}
			}
			part.TopicPartition = parts[i]
			res.Parts[i] = part
			seen++
		}
	}
	f.int32() // throttle time
	if seen != len(parts) {
		f.malformed("%d of %d partitions are answered", seen, len(parts))
	}
	return res
}

func readProducedPart(f *frame) ProducedPart {
	var p ProducedPart
	p.Partition = f.int32()
	p.Code = kcode.Code(f.int16())
	p.BaseOffset = f.int64()
	f.int64() // log append time
	f.int64() // log start
	for range f.count(6) {
		if p.BadRecords = append(p.BadRecords, int(f.int32())); f.err != nil {
			break // the count was of bytes that do not come
		}
		if why := f.str(nil); p.Message == "" {
			p.Message = string(why)
		}
	}
	if message := f.str(nil); len(message) > 0 {
		p.Message = string(message)
	}
	slices.Sort(p.BadRecords)
	if p.Code != kcode.None {
		p.BaseOffset = -1
	}
	return p
}
