package retry

import "slices"

// sleepers are the inert entries of one partition, by offset.
type sleepers struct {
	topic     int32
	partition int32
	items     []*Item
	unsorted  bool
}

func (x *Index) sleep(it *Item) {
	where := x.at(it.Origin, false)
	i := slices.IndexFunc(x.asleep, func(s sleepers) bool { return s.topic == where.topic && s.partition == where.partition })
	if i < 0 {
		i = len(x.asleep)
		x.asleep = append(x.asleep, sleepers{topic: where.topic, partition: where.partition})
	}
	s := &x.asleep[i]
	if n := len(s.items); n > 0 && s.items[n-1].Offset > it.Offset {
		s.unsorted = true
	}
	s.items = append(s.items, it)
}

// Inert returns how many entries are inert: while there are any, each record that is read has to be looked for with Find.
func (x *Index) Inert() int { return x.inert }

// Overdue returns an inert entry of a record below next, the offset up to which a partition has been read, or nil. Its record was not among
// those that were read: retention or compaction has taken it, or it was never committed by the transaction that wrote it. The entry is all
// that is left of it.
func (x *Index) Overdue(topic string, partition int32, next int64) *Item {
	if x.inert == 0 {
		return nil
	}
	for i := range x.asleep {
		if s := &x.asleep[i]; x.topics[s.topic].name == topic && s.partition == partition {
			if it := s.below(next); it != nil {
				return it
			}
		}
	}
	return nil
}

func (s *sleepers) below(next int64) *Item {
	if s.unsorted {
		slices.SortFunc(s.items, func(a, b *Item) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
		s.unsorted = false
	}
	for len(s.items) > 0 && s.items[0].Offset < next {
		if s.items[0].state == inert {
			return s.items[0]
		}
		s.items = s.items[1:]
	}
	return nil
}

// Activate makes an inert entry active, behind all others of its key, as its record was read behind theirs. It says whether the entry has
// changed and has to be written again: if one that was put aside later is ahead of it now, it has got a new Seq, so that the order is the
// same after the next restart. While a record of its key runs that has no entry, it has to wait, as a record would that is read.
func (x *Index) Activate(it *Item) (changed bool) {
	if it.state != inert {
		return false
	}
	x.inert--
	if x.inert == 0 {
		x.asleep = nil
	}
	if g := x.gates[string(it.Key)]; g != nil && !it.NullKey && g.tail.Seq > it.Seq {
		x.seq++
		it.Seq = x.seq
		changed = true
	}
	x.enqueue(it, true)
	return changed
}
