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
	Blind   bool                            // nothing is kept, and only the hash is made: for who can have it all again
	Hash    uint64

	ring []entry
	n    int
}

// NewTrace returns a trace in which nothing has happened.
func NewTrace() Trace { return Trace{Hash: hashOffset} }

const (
	kept       = 1 << 10 // entries
	hashOffset = 14695981039346656037
	hashPrime  = 0x9e3779b97f4a7c15
)

// entry is one thing that happened; only if somebody looks is it made into text.
type entry struct {
	at   time.Duration
	who  string
	what string // with {t}, {a} and {b} for what follows
	task task.ID
	part task.TopicPartition // "" for none
	a, b int64
	text string
	way  Way // of a message, 0 for others
	node int32
	msg  any
	on   Parts // besides what the task, the partition and the message say
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

// about are the partitions that an entry is about.
func (t *Trace) about(e *entry) Parts {
	on := e.on
	if strings.Contains(e.what, "{t}") {
		on |= t.parts(e.task)
	}
	if e.part.Topic != "" {
		on |= t.part(e.part)
	}
	if e.msg != nil {
		on |= t.concerns(e.msg)
	}
	return on
}

func (t *Trace) add(e *entry) {
	t.mixAll(e)
	t.keep(e)
}

func (t *Trace) keep(e *entry) {
	if t.Blind {
		return
	}
	if len(t.ring) < kept {
		t.ring = append(t.ring, *e)
	} else {
		t.ring[t.n%kept] = *e
	}
	t.n++
	if t.Out != nil {
		t.Out(e.String())
	}
}

func (t *Trace) mixAll(e *entry) {
	t.mix(uint64(e.at))
	t.mixText(e.who)
	t.mixText(e.what)
	t.mix(uint64(uint32(e.task.Subtopology))<<32 | uint64(uint32(e.task.Partition)))
	t.mixText(e.part.Topic)
	t.mix(uint64(e.a))
	t.mix(uint64(e.b))
	t.mix(uint64(e.way)<<48 ^ uint64(uint32(e.part.Partition))<<24 ^ uint64(uint32(e.node)))
	t.mixText(e.text)
}

func (t *Trace) mix(v uint64) {
	h := (t.Hash ^ v) * hashPrime
	t.Hash = h ^ h>>29
}

// mixText takes eight bytes at a time: a run says as much as it does, and texts are most of it.
func (t *Trace) mixText(s string) {
	t.mix(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		t.mix(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
	}
	v := uint64(0)
	for i := range len(s) {
		v |= uint64(s[i]) << (8 * i)
	}
	t.mix(v)
}

// Last returns the last n lines about some partitions; 0 stands for everything.
func (t *Trace) Last(n int, on Parts) []string {
	var out []string
	for i := t.n - 1; i >= t.n-len(t.ring) && len(out) < n; i-- {
		if e := &t.ring[i%kept]; on == 0 || t.about(e)&on != 0 {
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
	switch {
	case e.text != "":
		what += ": " + e.text
	case e.part.Topic != "":
		what += ": " + e.part.String()
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
	e.a, e.b, e.part = a, b, tp
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
	kind := kindOfMessage(msg)
	e := s.entry(kind)
	e.way, e.node, e.msg = way, l.Node, msg
	t.mixAll(&e)
	if l.Process != nil && (kind != "" || way == Lost) {
		t.keep(&e)
	}
}

// Notice keeps what a process tells of itself.
func (t *Trace) Notice(sc Scene, n engine.Notice) {
	e := sc.entry(string(n.Kind))
	t.mixAll(&e)
	t.mixNotice(&n)
	if !t.Blind {
		e.text, e.on = t.notice(&n)
		t.keep(&e)
	}
}

// mixNotice takes in all that a notice may say.
func (t *Trace) mixNotice(n *engine.Notice) {
	id := func(id task.ID) { t.mix(uint64(uint32(id.Subtopology))<<32 | uint64(uint32(id.Partition))) }
	id(n.Task)
	for _, of := range n.Tasks {
		id(of)
	}
	t.mixText(n.Part.Topic)
	t.mix(uint64(n.Role)<<56 ^ uint64(n.State)<<48 ^ uint64(uint32(n.Part.Partition))<<32 ^ uint64(uint32(n.Generation)))
	for _, v := range [...]int64{n.Start, n.Position, n.End, n.Records, int64(n.Took)} {
		t.mix(uint64(v))
	}
	t.mixText(n.What)
	t.mixText(n.Text)
	if n.Err != nil {
		t.mixText(n.Err.Error())
	}
}

// notice is what a notice says, and of which partitions.
func (t *Trace) notice(n *engine.Notice) (s string, on Parts) {
	s, on = n.Text, t.part(n.Part)
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
	case engine.NoticeForeignWriter, engine.NoticeReset, engine.NoticeAnew, engine.NoticeRestoreBegin, engine.NoticeRestoreEnd, engine.NoticeWiped:
		s = fmt.Sprintf("%v %d..%d %s", n.Part, n.Position, n.End, n.Text)
	case engine.NoticeLost:
		on = ^Parts(0)
	}
	if n.Err != nil {
		s += " " + n.What + " " + n.Err.Error()
	}
	return s, on
}
