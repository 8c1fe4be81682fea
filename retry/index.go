package retry

import "math"

// Never is the time at which nothing is due.
const Never int64 = math.MaxInt64

// Item is an entry in an [Index]. It has no Message: what the store says of that is not kept in memory, as payloads are not.
type Item struct {
	Entry
	gate  *gate // of its key; nil if it has none, or is inert
	next  *Item // the one that waits behind it
	place int32 // in the heap, or none
	state state
}

type state uint8

const (
	waiting state = iota // for its time, or for the one ahead of it
	running
	inert
	gone // removed
)

const none = -1

// Running says whether it has been started and is neither removed nor to be tried again yet.
func (it *Item) Running() bool { return it.state == running }

// Ahead is the head of its key that it waits behind; nil if it is that itself.
func (it *Item) Ahead() *Item {
	if it.Head() {
		return nil
	}
	return it.gate.head
}

// Head says whether no other of its key is ahead of it, so that it runs when it is due.
func (it *Item) Head() bool { return it.gate == nil || it.gate.head == it }

// Index knows the entries of one task's retry store: which of them is due, and which keys must wait. It is derived from the store, and holds
// nothing that is not there.
//
// An entry is active or inert. It is inert after a restart if the last commit does not show its record as done: then the record will be read
// again, and until that has happened the entry neither runs nor closes its key. Whoever reads the record finds the entry ([Index.Find]) and
// activates it ([Index.Activate]).
//
// In [ModeKeyOrdered] the gate of a key is closed while there is an active entry of that key: only the first, its head, has a time at which
// it is due, and all others follow it. Nothing is counted for that, so nothing can be counted wrongly.
type Index struct {
	mode   Mode
	seq    uint64 // the last that was given
	topics []topic
	names  map[string]string
	items  map[at]*Item
	asleep []sleepers // inert entries, by topic and partition
	gates  map[string]*gate
	depths depths
	due    heap

	inert   int
	running int
	bytes   int64
}

// topic is a topic by its name and its id.
type topic struct {
	name string
	id   TopicID
}

// at is an Origin, with the number of its topic.
type at struct {
	offset    int64
	topic     int32
	partition int32
}

// NewIndex returns an empty index.
func NewIndex(mode Mode) *Index {
	return &Index{mode: mode, names: map[string]string{}, items: map[at]*Item{}, gates: map[string]*gate{}}
}

// Load adds an entry of the store, before anything else is done: inert if the last commit does not show its record as done. Entries may come
// in any order; that of their keys is the fastest. e.Key is copied.
func (x *Index) Load(e Entry, asleep bool) {
	x.seq = max(x.seq, e.Seq)
	it := x.add(e)
	if asleep {
		it.state = inert
		x.inert++
		x.sleep(it)
		return
	}
	x.enqueue(it, false)
}

// Park adds the entry of a record that is put aside now, and gives it the next Seq. If there is an active one of its key it follows that:
// its Due is Follows then. What the caller writes to the store is the entry of the item, with the message. e.Key is copied. A record that is
// there already gets no second entry: its item is returned, and active.
func (x *Index) Park(e Entry) *Item {
	if it := x.items[x.at(e.Origin, false)]; it != nil {
		x.Activate(it)
		return it
	}
	x.seq++
	e.Seq = x.seq
	it := x.add(e)
	x.enqueue(it, true)
	return it
}

func (x *Index) add(e Entry) *Item {
	it := &Item{Entry: e, place: none}
	it.Message = ""
	it.Key = append([]byte(nil), e.Key...)
	it.Kind, it.Class, it.Node = x.name(e.Kind), x.name(e.Class), x.name(e.Node)
	where := x.at(e.Origin, true)
	it.Topic = x.topics[where.topic].name
	x.items[where] = it
	x.bytes += int64(e.Bytes)
	return it
}

// at returns the map's key for o. With add, a topic that is not known yet gets a number.
func (x *Index) at(o Origin, add bool) at {
	for i, t := range x.topics {
		if t.name == o.Topic && t.id == o.ID {
			return at{topic: int32(i), partition: o.Partition, offset: o.Offset}
		}
	}
	if !add {
		return at{topic: none}
	}
	x.topics = append(x.topics, topic{o.Topic, o.ID})
	return at{topic: int32(len(x.topics) - 1), partition: o.Partition, offset: o.Offset}
}

// maxNames bounds how many names are shared between items. There are few of them, unless somebody makes up classes.
const maxNames = 1024

// name returns s, in the bytes of the one that came first.
func (x *Index) name(s string) string {
	if known, ok := x.names[s]; ok {
		return known
	}
	if len(x.names) < maxNames {
		x.names[s] = s
	}
	return s
}

// enqueue makes an item active: behind the last of its key, or, if that is not to be, where its Seq puts it. The first of a key is due at
// its time, or at once if it followed another one before.
func (x *Index) enqueue(it *Item, last bool) {
	it.state = waiting
	if x.mode != ModeKeyOrdered || it.NullKey {
		it.Due = max(it.Due, 0)
		x.due.push(it)
		return
	}
	g := x.gates[string(it.Key)]
	if g == nil {
		g = &gate{}
		x.gates[string(it.Key)] = g
	}
	it.gate = g
	head := g.head
	g.insert(it, last)
	x.depths.changed(g.depth-1, g.depth)
	switch {
	case head == nil:
		it.Due = max(it.Due, 0)
		x.due.push(it)
	case g.head == it: // ahead of what was first so far
		x.due.remove(head)
		head.Due = Follows
		it.Due = max(it.Due, 0)
		x.due.push(it)
	default:
		it.Due = Follows
	}
}

// Find returns the entry of a record, and whether it is inert; nil if there is none. Where the id of a topic is not known the entry may be that of
// another record: its Origin has not the ID that was asked for then, or has none. Those that are inert come first.
func (x *Index) Find(o Origin) (it *Item, asleep bool) {
	if len(x.items) == 0 {
		return nil, false
	}
	if it = x.items[x.at(o, false)]; it != nil {
		return it, it.state == inert
	}
	for i, t := range x.topics {
		if t.name != o.Topic || t.id.Other(o.ID) {
			continue
		}
		other := x.items[at{topic: int32(i), partition: o.Partition, offset: o.Offset}]
		switch {
		case other == nil:
		case other.state == inert:
			return other, true
		case it == nil:
			it = other
		}
	}
	return it, false
}

// Rename makes an item that of another record, with the same key.
func (x *Index) Rename(it *Item, to Origin) {
	if it.state == gone || it.state == inert || x.items[x.at(to, false)] != nil {
		return
	}
	delete(x.items, x.at(it.Origin, false))
	where := x.at(to, true)
	it.Origin = to
	it.Topic = x.topics[where.topic].name
	x.items[where] = it
}

// Closed says whether the gate of a key is closed, so that a record with it has to follow what is there.
func (x *Index) Closed(key []byte, null bool) bool {
	return len(x.gates) > 0 && !null && x.gates[string(key)] != nil
}

// Due returns the entry that is due first of all that do not run, by (Due, Seq), or nil if none is due by now.
func (x *Index) Due(now int64) *Item {
	if x.NextDue() > now {
		return nil
	}
	return x.due[0].it
}

// NextDue returns when the next entry is due, in milliseconds, or Never.
func (x *Index) NextDue() int64 {
	if len(x.due) == 0 {
		return Never
	}
	return x.due[0].due
}

// Start marks an item as running: it is not due until Again.
func (x *Index) Start(it *Item) {
	if it.state != waiting || !it.Head() {
		return
	}
	x.due.remove(it)
	it.state = running
	x.running++
}

// Again makes an item wait for its Due, which the caller has changed, together with what else has changed of the entry but its Key and Seq.
// It runs no more.
func (x *Index) Again(it *Item) {
	if it.state == inert || it.state == gone || !it.Head() {
		return
	}
	x.stop(it)
	it.Message = ""
	it.Class, it.Kind, it.Node = x.name(it.Class), x.name(it.Kind), x.name(it.Node)
	it.Due = max(it.Due, 0)
	x.due.push(it)
}

// stop takes an item from wherever it waits or runs.
func (x *Index) stop(it *Item) {
	x.due.remove(it)
	if it.state == running {
		x.running--
		it.state = waiting
	}
}

// Remove takes an item out: its record is done. The one that has followed it is the head of the key now, due at once, and is returned; nil
// if there is none.
func (x *Index) Remove(it *Item, now int64) (next *Item) {
	if it.state == gone {
		return nil
	}
	if it.state == inert {
		x.inert--
	} else {
		x.stop(it)
	}
	it.state = gone
	delete(x.items, x.at(it.Origin, false))
	x.bytes -= int64(it.Bytes)
	g := it.gate
	if g == nil {
		return nil
	}
	first := g.head == it
	g.remove(it)
	x.depths.changed(g.depth+1, g.depth)
	switch {
	case g.head == nil:
		delete(x.gates, string(it.Key))
	case first:
		next = g.head
		next.Due = now
		x.due.push(next)
	}
	return next
}

// Followers returns those that wait behind an item, in their order.
func (x *Index) Followers(it *Item) []*Item {
	var all []*Item
	for f := it.next; f != nil; f = f.next {
		all = append(all, f)
	}
	return all
}

// Depth returns how many active entries a key has. A key that is no gate has none.
func (x *Index) Depth(key []byte) int {
	if g := x.gates[string(key)]; g != nil {
		return g.depth
	}
	return 0
}

// Bound lets nothing wait longer from now on than it was to wait when that was written: Due may be of the clock of another host, or of this
// one before it was set back. It is not for every turn, as it looks at all entries.
func (x *Index) Bound(now int64) {
	for _, it := range x.items {
		if most := now + it.Wait; it.Due > most && most >= now {
			it.Due = most
		}
	}
	waiting := x.due
	x.due = make(heap, 0, len(waiting))
	for _, s := range waiting {
		x.due.push(s.it)
	}
}

// Len returns how many entries there are, inert ones included.
func (x *Index) Len() int { return len(x.items) }

// Bytes returns how many bytes their payloads take.
func (x *Index) Bytes() int64 { return x.bytes }

// IndexStats is an [Index] in numbers. None of them is ever below zero.
type IndexStats struct {
	Parked    int   // entries
	Due       int   // of these, those that are due and do not run
	Running   int   // those that run
	Inert     int   // those whose record is to be read again
	Gates     int   // keys that are closed
	Deepest   int   // entries of the key that has most of them
	Bytes     int64 // of payloads
	OldestDue int64 // milliseconds: when the one that is due first is due; Never
}

// Stats counts. It takes time with the number of entries that are due.
func (x *Index) Stats(now int64) IndexStats {
	return IndexStats{
		Parked: len(x.items), Due: x.due.until(now, 0), Running: x.running, Inert: x.inert,
		Gates: len(x.gates), Deepest: x.depths.deepest(), Bytes: x.bytes, OldestDue: x.NextDue(),
	}
}
