package sim

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

// trace keeps the last things that happened, and a hash over all of them.
type trace struct {
	out  func(string)
	ring [1 << 10]entry
	n    int
	hash uint64
}

// entry is one thing that happened; only if somebody looks is it made into text.
type entry struct {
	at   time.Duration
	who  string
	what string // with {t}, {a} and {b} for what follows
	task task.ID
	a, b int64
	text string
	way  virtual.Way // of a message, 0 for others
	node int32
	msg  any
	on   parts
}

// parts is a set of partitions: 10 of each topic.
type parts uint64

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

func (p parts) String() string {
	var out []string
	for p != 0 {
		i := bits.TrailingZeros64(uint64(p))
		out = append(out, task.TopicPartition{Topic: topics()[i/perTopic], Partition: int32(i % perTopic)}.String())
		p &^= 1 << i
	}
	return strings.Join(out, ", ")
}

func newTrace(out func(string)) trace { return trace{out: out, hash: fnvOffset} }

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (t *trace) add(e *entry) {
	t.ring[t.n%len(t.ring)] = *e
	t.n++
	t.mixAll(e)
	if t.out != nil {
		t.out(e.String())
	}
}

func (t *trace) mixAll(e *entry) {
	t.mix(uint64(e.at))
	t.mixText(e.who)
	t.mixText(e.what)
	t.mix(uint64(uint32(e.task.Subtopology))<<32 | uint64(uint32(e.task.Partition)))
	t.mix(uint64(e.a))
	t.mix(uint64(e.b))
	t.mix(uint64(e.way)<<32 | uint64(uint32(e.node)))
	t.mixText(e.text)
}

func (t *trace) mix(v uint64) { t.hash = (t.hash ^ v) * fnvPrime }

func (t *trace) mixText(s string) {
	for i := range len(s) {
		t.hash = (t.hash ^ uint64(s[i])) * fnvPrime
	}
}

// last returns the last n lines about some partitions; 0 stands for everything.
func (t *trace) last(n int, on parts) []string {
	var out []string
	for i := t.n - 1; i >= max(0, t.n-len(t.ring)) && len(out) < n; i-- {
		if e := &t.ring[i%len(t.ring)]; on == 0 || e.on&on != 0 {
			out = append(out, e.String())
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func (e *entry) String() string {
	head := fmt.Sprintf("%10.4fs  %-4s", e.at.Seconds(), e.who)
	if e.way != 0 {
		return fmt.Sprintf("%s %s broker %d  %s", head, [...]string{virtual.Sent: "──▶", virtual.Got: "◀──", virtual.Lost: "──╳"}[e.way], e.node, describe(e.msg))
	}
	what := strings.NewReplacer("{t}", e.task.String(), "{a}", strconv.FormatInt(e.a, 10), "{b}", strconv.FormatInt(e.b, 10)).Replace(e.what)
	if e.text != "" {
		what += ": " + e.text
	}
	return head + " " + what
}

// note keeps what happened to a process, or with none in the world. With a task, it concerns that task's partitions.
func (w *world) note(p *process, what string, id task.ID, a, b int64) {
	e := entry{at: w.Now.Sub(epoch), who: nameOf(p), what: what, task: id, a: a, b: b}
	if strings.Contains(what, "{t}") {
		e.on = partsOf(id)
	}
	w.trace.add(&e)
}

func (w *world) noteText(p *process, what, text string, on parts) {
	w.trace.add(&entry{at: w.Now.Sub(epoch), who: nameOf(p), what: what, text: text, on: on})
}

// notePart keeps what happened to a partition.
func (w *world) notePart(p *process, tp task.TopicPartition, what string, a, b int64) {
	w.trace.add(&entry{at: w.Now.Sub(epoch), who: nameOf(p), what: what, a: a, b: b, text: tp.String(), on: partOf(tp)})
}

// hidden counts for the hash only: the line would say what the message before it said.
func (w *world) hidden(p *process, what string, id task.ID, a, b int64) {
	w.trace.mixAll(&entry{at: w.Now.Sub(epoch), who: nameOf(p), what: what, task: id, a: a, b: b})
}

// traceMessage keeps a request or an answer. Those of the input's writer, and those that say nothing, are left out.
func (w *world) traceMessage(l *virtual.Link, way virtual.Way, msg any) {
	kind, on := concerns(msg)
	e := entry{at: w.Now.Sub(epoch), who: nameOf(of(l.Process)), what: kind, way: way, node: l.Node, msg: msg, on: on}
	if l.Process == nil || kind == "" && way != virtual.Lost {
		w.trace.mixAll(&e)
		return
	}
	w.trace.add(&e)
}

func nameOf(p *process) string {
	if p == nil {
		return "-"
	}
	return p.name
}

func (w *world) traceNotice(p *process, n engine.Notice) {
	s, on := n.Text, partOf(n.Part)
	switch n.Kind {
	case engine.NoticeState:
		s = n.State.String()
	case engine.NoticeTask:
		s, on = n.Task.String()+" "+n.Text, partsOf(n.Task)
	case engine.NoticeAssigned:
		s = fmt.Sprintf("generation %d: %v %s", n.Generation, n.Tasks, n.Text)
		for _, id := range n.Tasks {
			on |= partsOf(id)
		}
	case engine.NoticeForeignWriter, engine.NoticeReset, engine.NoticeRestoreBegin, engine.NoticeRestoreEnd, engine.NoticeWiped:
		s = fmt.Sprintf("%v %d..%d %s", n.Part, n.Position, n.End, n.Text)
	case engine.NoticeLost:
		on = ^parts(0)
	}
	if n.Err != nil {
		s += " " + n.What + " " + n.Err.Error()
	}
	w.noteText(p, string(n.Kind), s, on)
}
