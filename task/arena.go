package task

const (
	firstChunk = 4 << 10
	chunkBytes = 64 << 10
	minRoom    = 256
)

// tail returns an empty slice with at least room bytes of capacity at the end of the arena. Nothing is taken before commit.
func (e *Effects) tail(room int) []byte {
	for e.chunk < len(e.arena) {
		c := e.arena[e.chunk]
		if cap(c)-len(c) >= room {
			return c[len(c):]
		}
		if e.chunk+1 == len(e.arena) {
			break
		}
		e.chunk++
	}
	e.grow(room)
	c := e.arena[e.chunk]
	return c[len(c):]
}

func (e *Effects) grow(room int) {
	size := firstChunk
	if n := len(e.arena); n > 0 {
		size = min(2*cap(e.arena[n-1]), chunkBytes)
	}
	e.arena = append(e.arena, make([]byte, 0, max(size, room)))
	e.chunk = len(e.arena) - 1
}

// extend takes b into the arena if it is what was appended to the tail.
func (e *Effects) extend(b []byte) bool {
	i := e.chunk
	if len(b) == 0 || i >= len(e.arena) {
		return false
	}
	at := len(e.arena[i])
	n := at + len(b)
	if n > cap(e.arena[i]) || &e.arena[i][:n][at] != &b[0] {
		return false
	}
	e.arena[i] = e.arena[i][:n] // as it stands here, no pointer is written
	return true
}

// commit takes b into the arena. It costs nothing where b is what was appended to the tail, and copies b otherwise. The result has no
// spare capacity and is never nil.
func (e *Effects) commit(b []byte) []byte {
	if len(b) == 0 {
		if e.chunk == len(e.arena) {
			e.grow(0) // nothing, too, lies somewhere
		}
		return []byte{}
	}
	if e.extend(b) {
		return b[:len(b):len(b)]
	}
	e.tail(len(b))
	c := e.arena[e.chunk]
	at := len(c)
	c = append(c, b...)
	e.arena[e.chunk] = c
	return c[at:len(c):len(c)]
}

// effectsMark is a place in an Effects to go back to.
type effectsMark struct {
	groups, chunk, used, headers, heads, bytes int
}

func (e *Effects) mark(m *effectsMark) {
	m.groups, m.chunk, m.headers, m.heads, m.bytes, m.used = len(e.Groups), e.chunk, len(e.headers), len(e.heads), e.Bytes, 0
	if e.chunk < len(e.arena) {
		m.used = len(e.arena[e.chunk])
	}
}

// undo goes back to m. journal has the index of the group of each record that was added since.
func (e *Effects) undo(m *effectsMark, journal []int32) {
	for i := len(journal) - 1; i >= 0; i-- {
		g := &e.Groups[journal[i]]
		last := len(g.Refs) - 1
		g.Bytes -= int(g.Refs[last].Bytes)
		g.Refs = g.Refs[:last]
	}
	e.Groups = e.Groups[:m.groups]
	e.headers, e.heads = e.headers[:m.headers], e.heads[:m.heads]
	e.Bytes = m.bytes
	for i := m.chunk + 1; i < len(e.arena); i++ {
		e.arena[i] = e.arena[i][:0]
	}
	if m.chunk < len(e.arena) {
		e.arena[m.chunk] = e.arena[m.chunk][:m.used]
	}
	e.chunk = m.chunk
}

// group returns the index of a new group for a partition, with the memory of an earlier one where there is some.
func (e *Effects) group(to TopicPartition) int32 {
	n := len(e.Groups)
	if n < cap(e.Groups) {
		e.Groups = e.Groups[:n+1]
		g := &e.Groups[n]
		g.To, g.Refs, g.Bytes, g.in = to, g.Refs[:0], 0, e
	} else {
		e.Groups = append(e.Groups, Group{To: to, in: e})
	}
	return int32(n)
}

// reset empties the effects and keeps their memory. Chunks that one huge record made are given up.
func (e *Effects) reset() {
	kept := e.arena[:0]
	for _, c := range e.arena {
		if cap(c) <= chunkBytes {
			kept = append(kept, c[:0])
		}
	}
	clear(e.arena[len(kept):])
	e.arena, e.chunk = kept, 0
	e.Groups, e.Bytes, e.Seq = e.Groups[:0], 0, 0
	clear(e.headers)
	clear(e.heads)
	e.headers, e.heads = e.headers[:0], e.heads[:0]
}
