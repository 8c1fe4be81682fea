package virtual

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// Parts is a set of partitions, whichever those are that a trace tells apart.
type Parts uint64

// Trace keeps the last things that happened in a world, and a hash over all of them.
type Trace struct {
	Out     func(line string)               // gets every line as it happens; may be nil
	PartOf  func(task.TopicPartition) Parts // nil: partitions are not told apart
	PartsOf func(task.ID) Parts             // those that a task reads or writes and no other task of its kind does; nil: as PartOf
	Hash    uint64

	ring [1 << 10]entry
	n    int
}

// NewTrace returns a trace in which nothing has happened.
func NewTrace() Trace { return Trace{Hash: fnvOffset} }

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// entry is one thing that happened; only if somebody looks is it made into text.
type entry struct {
	at   time.Duration
	who  string
	what string // with {t}, {a} and {b} for what follows
	task task.ID
	a, b int64
	text string
	way  Way // of a message, 0 for others
	node int32
	msg  any
	on   Parts
}

func (t *Trace) part(tp task.TopicPartition) Parts {
	if t.PartOf == nil {
		return 0
	}
	return t.PartOf(tp)
}

func (t *Trace) parts(id task.ID) Parts {
	if t.PartsOf == nil {
		return 0
	}
	return t.PartsOf(id)
}

func (t *Trace) add(e *entry) {
	t.ring[t.n%len(t.ring)] = *e
	t.n++
	t.mixAll(e)
	if t.Out != nil {
		t.Out(e.String())
	}
}

func (t *Trace) mixAll(e *entry) {
	t.mix(uint64(e.at))
	t.mixText(e.who)
	t.mixText(e.what)
	t.mix(uint64(uint32(e.task.Subtopology))<<32 | uint64(uint32(e.task.Partition)))
	t.mix(uint64(e.a))
	t.mix(uint64(e.b))
	t.mix(uint64(e.way)<<32 | uint64(uint32(e.node)))
	t.mixText(e.text)
}

func (t *Trace) mix(v uint64) { t.Hash = (t.Hash ^ v) * fnvPrime }

func (t *Trace) mixText(s string) {
	for i := range len(s) {
		t.Hash = (t.Hash ^ uint64(s[i])) * fnvPrime
	}
}

// Last returns the last n lines about some partitions; 0 stands for everything.
func (t *Trace) Last(n int, on Parts) []string {
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
		return fmt.Sprintf("%s %s broker %d  %s", head, [...]string{Sent: "──▶", Got: "◀──", Lost: "──╳"}[e.way], e.node, describe(e.msg))
	}
	what := strings.NewReplacer("{t}", e.task.String(), "{a}", strconv.FormatInt(e.a, 10), "{b}", strconv.FormatInt(e.b, 10)).Replace(e.what)
	if e.text != "" {
		what += ": " + e.text
	}
	return head + " " + what
}

// Scene is a moment, and whom something happens to then: a process, or "-" for the world.
type Scene struct {
	At  time.Duration
	Who string
}

func (s Scene) entry(what string) entry { return entry{at: s.At, who: s.Who, what: what} }

// Note keeps what happened to a process. Where it says {t} it concerns the partitions of a task.
func (t *Trace) Note(s Scene, what string, id task.ID, a, b int64) {
	e := s.entry(what)
	e.task, e.a, e.b = id, a, b
	if strings.Contains(what, "{t}") {
		e.on = t.parts(id)
	}
	t.add(&e)
}

// Text keeps what happened, with more words about it.
func (t *Trace) Text(s Scene, what, text string, on Parts) {
	e := s.entry(what)
	e.text, e.on = text, on
	t.add(&e)
}

// Part keeps what happened to a partition.
func (t *Trace) Part(s Scene, tp task.TopicPartition, what string, a, b int64) {
	e := s.entry(what)
	e.a, e.b, e.text, e.on = a, b, tp.String(), t.part(tp)
	t.add(&e)
}

// Hidden counts for the hash only: the line would say what the message before it said.
func (t *Trace) Hidden(s Scene, what string, id task.ID, a, b int64) {
	e := s.entry(what)
	e.task, e.a, e.b = id, a, b
	t.mixAll(&e)
}

// Message keeps a request or an answer. Those of nobody, and those that say nothing, are left out.
func (t *Trace) Message(s Scene, l *Link, way Way, msg any) {
	kind, on := t.concerns(msg)
	e := s.entry(kind)
	e.way, e.node, e.msg, e.on = way, l.Node, msg, on
	if l.Process == nil || kind == "" && way != Lost {
		t.mixAll(&e)
		return
	}
	t.add(&e)
}

// Notice keeps what a process tells of itself.
func (t *Trace) Notice(sc Scene, n engine.Notice) {
	s, on := n.Text, t.part(n.Part)
	switch n.Kind {
	case engine.NoticeState:
		s = n.State.String()
	case engine.NoticeTask:
		s, on = n.Task.String()+" "+n.Text, t.parts(n.Task)
	case engine.NoticeAssigned:
		s = fmt.Sprintf("generation %d: %v %s", n.Generation, n.Tasks, n.Text)
		for _, id := range n.Tasks {
			on |= t.parts(id)
		}
	case engine.NoticeForeignWriter, engine.NoticeReset, engine.NoticeRestoreBegin, engine.NoticeRestoreEnd, engine.NoticeWiped:
		s = fmt.Sprintf("%v %d..%d %s", n.Part, n.Position, n.End, n.Text)
	case engine.NoticeLost:
		on = ^Parts(0)
	}
	if n.Err != nil {
		s += " " + n.What + " " + n.Err.Error()
	}
	t.Text(sc, string(n.Kind), s, on)
}
