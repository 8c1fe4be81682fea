package sim

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

// source writes the input: each record once, a few at a time, as long as the faults last. Its connections know no faults but a broker's.
type source struct {
	w     *world
	word  []string // of each record
	left  int      // not written yet
	truth map[string]int
	all   []string // words
}

func (s *source) init(w *world) {
	*s = source{w: w, left: w.cfg.Records, truth: map[string]int{}}
	for i := range words {
		s.all = append(s.all, fmt.Sprintf("w%d", i))
	}
	for range w.cfg.Records {
		word := s.all[w.Rand.IntN(words)]
		s.word = append(s.word, word)
		s.truth[word]++
	}
}

func (s *source) begin() {
	for id := 0; id < len(s.word); {
		n := min(1+s.w.Rand.IntN(8), len(s.word)-id)
		ids := make([]int, n)
		for i := range ids {
			ids[i] = id + i
		}
		id += n
		tp := task.TopicPartition{Topic: topicIn, Partition: int32(s.w.Rand.IntN(int(s.w.cfg.Parts)))}
		s.w.After(s.w.UpTo(faultTime-2*time.Second), nil, func() { s.write(tp, ids) })
	}
}

// preload writes records to the changelogs that say nothing, so that there is something to learn from the beginning on.
func (w *world) preload() {
	for part := range w.cfg.Parts {
		tp := counts(part)
		for left := w.mood.preload; left > 0; left -= 50 {
			batch := modelbroker.ProduceBatch{TopicPartition: tp, ProducerID: -1}
			for i := range min(left, 50) {
				batch.Records = append(batch.Records, task.OutRecord{Key: fmt.Appendf(nil, "old%d", i%5), Value: make([]byte, 8+(w.cfg.Records+7)/8)})
			}
			node, _ := w.Broker.Leader(tp)
			conn, err := w.Broker.Dial(node)
			if err != nil {
				w.violated("preload: %v", err)
				return
			}
			w.Broker.Receive(w.Now, conn, w.NextID(), modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{batch}})
			w.Broker.Answers()
			w.Broker.Hangup(conn)
			w.oracle.appended(&virtual.Call{Link: &virtual.Link{World: w.World}}, batch, int64(len(w.oracle.logs[tp])))
			if end := w.Broker.End(tp); end != int64(len(w.oracle.logs[tp])) {
				w.violatedAt(tp, "preload: %v ends at %d", tp, end)
			}
		}
	}
}

// write appends records; those that were not appended are tried again.
func (s *source) write(tp task.TopicPartition, ids []int) {
	batch := modelbroker.ProduceBatch{TopicPartition: tp, ProducerID: -1}
	for _, id := range ids {
		batch.Records = append(batch.Records, task.OutRecord{Key: []byte(s.word[id]), Value: recordValue(id), Timestamp: s.w.Now.UnixMilli()})
	}
	node, _ := s.w.Broker.Leader(tp)
	l := &virtual.Link{World: s.w.World, Node: node, Sure: true}
	l.Call(modelbroker.ProduceRequest{Batches: []modelbroker.ProduceBatch{batch}}, func(r modelbroker.Response, err error) {
		l.Close()
		if err == nil && r.(modelbroker.ProduceResponse).Parts[0].Code == kcode.None || s.w.oracle.input.has(ids[0]) {
			s.left -= len(ids)
			return
		}
		s.w.After(200*time.Millisecond, nil, func() { s.write(tp, ids) })
	})
}
