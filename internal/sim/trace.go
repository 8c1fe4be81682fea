package sim

import (
	"math/bits"
	"strings"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

// parts is a set of partitions: 10 of each topic.
type parts = virtual.Parts

const perTopic = 10

func partOf(tp task.TopicPartition) parts {
	for i, topic := range topics() {
		if topic == tp.Topic && tp.Partition < perTopic {
			return 1 << (perTopic*i + int(tp.Partition))
		}
	}
	return 0
}

// partsOf are the partitions that a task reads or writes and no other task of its kind does.
func partsOf(id task.ID) parts {
	if id.Subtopology == 0 {
		return partOf(task.TopicPartition{Topic: topicIn, Partition: id.Partition})
	}
	var all parts
	for _, topic := range []string{topicWords, topicCounts, topicOut, topicParked, topicDead} {
		all |= partOf(task.TopicPartition{Topic: topic, Partition: id.Partition})
	}
	return all
}

// partNames names them.
func partNames(p parts) string {
	var out []string
	for p != 0 {
		i := bits.TrailingZeros64(uint64(p))
		out = append(out, task.TopicPartition{Topic: topics()[i/perTopic], Partition: int32(i % perTopic)}.String())
		p &^= 1 << i
	}
	return strings.Join(out, ", ")
}

func newTrace(out func(string)) virtual.Trace {
	t := virtual.NewTrace()
	t.Out, t.PartOf, t.PartsOf = out, partOf, partsOf
	return t
}

func (w *world) scene(p *process) virtual.Scene {
	return virtual.Scene{At: w.Now.Sub(epoch), Who: nameOf(p)}
}

// note keeps what happened to a process, or with none in the world. Where it says {t} it concerns that task's partitions.
func (w *world) note(p *process, what string, id task.ID, a, b int64) {
	w.trace.Note(w.scene(p), what, id, a, b)
}

func (w *world) noteText(p *process, what, text string, on parts) {
	w.trace.Text(w.scene(p), what, text, on)
}

func (w *world) notePart(p *process, tp task.TopicPartition, what string, a, b int64) {
	w.trace.Part(w.scene(p), tp, what, a, b)
}

func (w *world) traceMessage(l *virtual.Link, way virtual.Way, msg any) {
	w.trace.Message(w.scene(of(l.Process)), l, way, msg)
}

func (w *world) traceNotice(p *process, n engine.Notice) { w.trace.Notice(w.scene(p), n) }

func nameOf(p *process) string {
	if p == nil {
		return "-"
	}
	return p.name
}
