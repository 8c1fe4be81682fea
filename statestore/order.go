package statestore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// Order sorts changes by key without moving them: by eight bytes of each key at a time, from where the keys begin to differ. It keeps its
// memory from call to call. The zero value is ready. It is not for concurrent use.
type Order struct {
	changes   []Change
	at, spare []ranked
	counts    [8][256]uint32
	last      []uint32
}

// ranked is a change by its number, with the next eight bytes of its key.
type ranked struct {
	prefix uint64
	change uint32
}

// Below these numbers of changes counting bytes costs more than it spares.
const (
	fewToRank  = 24
	fewToCount = 400
)

// Sort returns the numbers of the changes in byte order of their keys; of each key it is that of the last change. The result is valid until
// the next call.
func (o *Order) Sort(changes []Change) []uint32 {
	o.changes = changes
	o.at = slices.Grow(o.at[:0], len(changes))[:len(changes)]
	for i := range o.at {
		o.at[i].change = uint32(i)
	}
	o.sort(o.at, 0)
	o.last = slices.Grow(o.last[:0], len(changes))
	for i := range o.at {
		n := o.at[i].change
		if i+1 == len(o.at) || !bytes.Equal(changes[n].Key, changes[o.at[i+1].change].Key) {
			o.last = append(o.last, n)
		}
	}
	o.changes = nil
	return o.last
}

func (o *Order) key(r *ranked) []byte { return o.changes[r.change].Key }

// sort sorts changes that are in the order of their numbers and have the first depth bytes of their keys in common.
func (o *Order) sort(at []ranked, depth int) {
	if len(at) <= fewToRank {
		o.compare(at, depth)
		return
	}
	depth = o.common(at, depth)
	for i := range at {
		at[i].prefix = prefixOf(o.key(&at[i])[depth:])
	}
	if len(at) <= fewToCount {
		slices.SortFunc(at, byPrefix)
	} else {
		o.count(at)
	}
	for len(at) > 0 {
		n := 1
		for n < len(at) && at[n].prefix == at[0].prefix {
			n++
		}
		if n > 1 {
			o.ties(at[:n], depth+8)
		}
		at = at[n:]
	}
}

// ties sorts changes whose keys do not differ before depth, other than by ending there.
func (o *Order) ties(at []ranked, depth int) {
	for i := range at {
		if len(o.key(&at[i])) < depth {
			o.compare(at, depth-8)
			return
		}
	}
	o.sort(at, depth)
}

// compare sorts by comparing keys.
func (o *Order) compare(at []ranked, depth int) {
	slices.SortFunc(at, func(x, y ranked) int {
		return cmp.Or(bytes.Compare(o.key(&x)[depth:], o.key(&y)[depth:]), cmp.Compare(x.change, y.change))
	})
}

func byPrefix(x, y ranked) int {
	return cmp.Or(cmp.Compare(x.prefix, y.prefix), cmp.Compare(x.change, y.change))
}

// common returns how many bytes all keys have in common, of which depth are known.
func (o *Order) common(at []ranked, depth int) int {
	first := o.key(&at[0])
	n := len(first)
	for i := 1; i < len(at) && n > depth; i++ {
		k := o.key(&at[i])
		n = min(n, len(k))
		for n > depth && !bytes.Equal(first[depth:n], k[depth:n]) {
			n--
		}
	}
	return n
}

// prefixOf packs the first eight bytes; what is missing counts as zero.
func prefixOf(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var p uint64
	for i, c := range b {
		p |= uint64(c) << (56 - 8*i)
	}
	return p
}

// count sorts by prefix, a byte at a time from the last, and leaves out the bytes in which all are equal. It keeps the order of equals.
func (o *Order) count(at []ranked) {
	o.counts = [8][256]uint32{}
	for i := range at {
		p := at[i].prefix
		for b := range 8 {
			o.counts[b][byte(p>>(8*b))]++
		}
	}
	o.spare = slices.Grow(o.spare[:0], len(at))[:len(at)]
	from, to := at, o.spare
	for b := range 8 {
		counts := &o.counts[b]
		if int(counts[byte(at[0].prefix>>(8*b))]) == len(at) {
			continue
		}
		next := uint32(0)
		for i, n := range counts {
			counts[i] = next
			next += n
		}
		for i := range from {
			slot := &counts[byte(from[i].prefix>>(8*b))]
			to[*slot] = from[i]
			*slot++
		}
		from, to = to, from
	}
	if &from[0] != &at[0] {
		copy(at, from)
	}
}
