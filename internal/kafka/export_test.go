package kafka

import "github.com/understudy-streams/understudy/task"

// Path is the way of record batches in and out, without the sockets.
type Path struct {
	pool    batchPool
	decoder decoder
	encoder encoder
	out     []byte
}

// NewPath returns a Path.
func NewPath() *Path {
	p := &Path{}
	p.decoder.pool = &p.pool
	return p
}

// In decodes a record set as a fetch does, with the copy out of the socket. The records are taken to begin at offset base.
func (p *Path) In(set []byte, base int64) (*task.Batch, error) {
	putInt64(set, base)
	buf := p.pool.get(len(set))
	copy(buf, set)
	return p.decoder.decode(task.TopicPartition{}, buf, base, false, nil)
}

// Recycle takes batches back.
func (p *Path) Recycle(done []*task.Batch) {
	for _, b := range done {
		p.pool.recycle(b)
	}
}

// Out encodes a batch as a produce does.
func (p *Path) Out(groups ...*task.Group) (int, error) {
	var err error
	p.out, err = p.encoder.appendBatch(p.out[:0], &ProduceBatch{Groups: groups})
	return len(p.out), err
}

// Set encodes records.
func Set(records ...task.OutRecord) ([]byte, error) {
	var e encoder
	return e.appendBatch(nil, &ProduceBatch{ProducerID: -1, Groups: []*task.Group{task.NewGroup(task.TopicPartition{}, records...)}})
}
