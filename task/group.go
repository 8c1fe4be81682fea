package task

// Group is the part of an Effects that goes to one partition, in order.
type Group struct {
	To    TopicPartition
	Refs  []Ref // the records; a part of a group has part of them
	Bytes int   // what they take on the wire at most, and in memory about

	in *Effects
}

// Ref is a record of a Group. It says where the record lies in the memory of its Effects, without a pointer: there are many, and the garbage
// collector does not look into them.
type Ref struct {
	Timestamp int64
	Bytes     int32 // see Group.Bytes
	chunk     int32
	at        int32 // of the key; the value follows it
	key       int32 // length, -1 for null
	value     int32
	headers   int32 // 1 + index into Effects.heads; 0 where there are none
}

// NewGroup makes a group of its own from records, which it copies: for whoever has no task.
func NewGroup(to TopicPartition, records ...OutRecord) *Group {
	o := newOutbox(ID{}, 0)
	d := destination{Dest: Dest{Topic: to.Topic}}
	o.slot(&d, to.Partition)
	for i := range records {
		r := &records[i]
		b := append(append(o.active.tail(len(r.Key)+len(r.Value)), r.Key...), r.Value...)
		o.append(&d, to.Partition, o.place(b, length(r.Key), length(r.Value), r.Timestamp, r.Headers), 0)
	}
	return &o.active.Groups[0]
}

func length(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// Record is a record of the group. Its bytes belong to the group.
func (g *Group) Record(i int) OutRecord {
	r := &g.Refs[i]
	key, value := g.Bodies(r)
	return OutRecord{Key: key, Value: value, Timestamp: r.Timestamp, Headers: g.Headers(r)}
}

// Records are all of them.
func (g *Group) Records() []OutRecord {
	out := make([]OutRecord, len(g.Refs))
	for i := range out {
		out[i] = g.Record(i)
	}
	return out
}

// Bodies are the key and value of a record of the group, nil where they are null.
func (g *Group) Bodies(r *Ref) (key, value []byte) {
	c := g.in.arena[r.chunk]
	at := r.at
	if r.key >= 0 {
		key = c[at : at+r.key : at+r.key]
		at += r.key
	}
	if r.value >= 0 {
		value = c[at : at+r.value : at+r.value]
	}
	return key, value
}

// Headers are those of a record of the group.
func (g *Group) Headers(r *Ref) []Header {
	if r.headers == 0 {
		return nil
	}
	return g.in.heads[r.headers-1]
}

// recordOverhead bounds the varints around a record on the wire, and headerOverhead those around a header.
const (
	recordOverhead = 24
	headerOverhead = 10
)

func headerBytes(h []Header) (n int) {
	for i := range h {
		n += len(h[i].Key) + len(h[i].Value) + headerOverhead
	}
	return n
}
