package retry

import (
	"cmp"
	"fmt"
	"slices"
)

// life is a task from its start to its crash.
type life struct {
	*world
	now     int64
	windows map[string]*Window
	index   *Index
	rows    map[string][]byte // the store as the task sees it
	dirty   []string          // keys of rows written since the last seal
	flight  []*flight
	tries   map[Origin]int // in this life

	unsent [][]Origin // by output; the last one is of dead letters
	sealed *sealedPart
	slow   int // the output whose broker is slow, or none
}

// flight is a record or an entry that is being run.
type flight struct {
	*source
	item *Item // its entry, or nil
}

// sealedPart is a commit on its way.
type sealedPart struct {
	effects  []int // how many of each output are still to be acknowledged
	puts     []row
	deletes  []row
	offsets  map[string]commitOf
	firstLeg bool
}

type row struct {
	key    string
	value  []byte
	delete bool
}

// start begins a life with what the last one has left.
func (w *world) start() *life {
	w.started++
	l := &life{
		world: w, now: int64(w.started) * 1000, windows: map[string]*Window{}, index: NewIndex(w.mode), rows: map[string][]byte{},
		tries: map[Origin]int{}, unsent: make([][]Origin, outputCount+1),
		slow: w.rnd.IntN(outputCount+2) - 1,
	}
	if w.rules.allRunAtOnce {
		l.index = NewIndex(ModeParallel)
	}
	for _, topic := range w.topics {
		c := w.committed[topic]
		l.windows[topic] = Restore(c.low, c.main, c.holes)
	}
	keys := make([]string, 0, len(w.store))
	for key, value := range w.store {
		l.rows[key] = value
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o, payload, err := ParseKey([]byte(key))
		if err != nil {
			panic(err)
		}
		if payload {
			continue
		}
		e, err := DecodeEntry(o, l.rows[key])
		if err != nil {
			panic(err)
		}
		l.index.Load(e, l.windows[o.Topic].IsOpen(o.Offset) && !w.rules.nothingIsInert)
	}
	return l
}

// write notes a row, nil for none.
func (l *life) write(key string, value []byte) {
	if !slices.Contains(l.dirty, key) {
		l.dirty = append(l.dirty, key)
	}
	if value == nil {
		delete(l.rows, key)
	} else {
		l.rows[key] = value
	}
}

func (l *life) putEntry(it *Item) {
	l.write(string(AppendEntryKey(nil, it.Origin)), AppendEntry(nil, &it.Entry))
}

func (l *life) putPayload(s *source) {
	l.write(string(AppendPayloadKey(nil, s.Origin)), AppendPayload(nil, s.Origin, &Payload{Value: []byte(s.key)}))
}

func (l *life) deleteRows(o Origin) {
	l.write(string(AppendEntryKey(nil, o)), nil)
	l.write(string(AppendPayloadKey(nil, o)), nil)
}

func (l *life) send(s *source) {
	out := 0
	if s.key != "" {
		out = int(s.key[0]) % outputCount
	}
	l.unsent[out] = append(l.unsent[out], s.Origin)
}

func (l *life) bury(s *source) { l.unsent[outputCount] = append(l.unsent[outputCount], s.Origin) }

// busy says whether a record of the key runs, beside which no other one may.
func (l *life) busy(key string) bool {
	return l.mode == ModeKeyOrdered && key != "" && !l.rules.besideTheirKey &&
		slices.ContainsFunc(l.flight, func(f *flight) bool { return f.item == nil && f.key == key })
}

// read takes the next record of an input.
func (l *life) read(topic string) bool {
	w := l.windows[topic]
	var s *source
	for _, c := range l.sources[topic] {
		if c.Offset >= w.Read() && !c.gone {
			s = c
			break
		}
	}
	end := l.sources[topic][len(l.sources[topic])-1].Offset + 1
	if s == nil {
		return w.Read() < end && l.wake(topic, end) && w.Pass(end) >= 0
	}
	if !l.wake(topic, s.Offset) || l.busy(s.key) {
		return false
	}
	if !w.IsOpen(s.Offset) {
		w.Pass(s.Offset + 1)
		return true
	}
	w.Taken(s.Offset)
	switch it, asleep := l.index.Find(s.Origin); {
	case asleep:
		l.found(it)
		if l.rows[string(AppendPayloadKey(nil, s.Origin))] == nil {
			l.putPayload(s) // the crash came between the two rows
		}
		w.Done(s.Offset)
	case it != nil:
		w.Done(s.Offset)
	case l.index.Closed([]byte(s.key), s.key == ""):
		l.park(s, Follows, 0)
	default:
		l.flight = append(l.flight, &flight{source: s})
	}
	return true
}

// wake activates what is inert below an offset, and will not be read. It has to wait for what runs of its key.
func (l *life) wake(topic string, next int64) bool {
	if l.rules.overdueIsLeft {
		return true
	}
	for it := l.index.Overdue(topic, 0, next); it != nil; it = l.index.Overdue(topic, 0, next) {
		if l.busy(string(it.Key)) {
			return false
		}
		l.found(it)
	}
	return true
}

func (l *life) found(it *Item) {
	seq := it.Seq
	if l.index.Activate(it) {
		if l.rules.activatedWhereItWas {
			it.Seq = seq
		}
		l.putEntry(it)
	}
}

func (l *life) park(s *source, due int64, attempt int) *Item {
	it := l.index.Park(Entry{Origin: s.Origin, Key: []byte(s.key), NullKey: s.key == "", Due: due, Attempt: attempt})
	l.putEntry(it)
	l.putPayload(s)
	l.windows[s.Topic].Done(s.Offset)
	return it
}

// run starts the entry that is due.
func (l *life) run() bool {
	it := l.index.Due(l.now)
	if it == nil {
		return false
	}
	if l.rows[string(AppendPayloadKey(nil, it.Origin))] == nil { // it was done, and the crash came between its deletes
		l.remove(it)
		return true
	}
	l.index.Start(it)
	l.flight = append(l.flight, &flight{source: l.source(it.Origin), item: it})
	return true
}

func (l *life) remove(it *Item) {
	l.index.Remove(it, l.now)
	l.deleteRows(it.Origin)
}

// eject makes an entry of a record that takes too long. It goes on running.
func (l *life) eject(f *flight) {
	if f.item == nil {
		f.item = l.park(f.source, l.now, 0)
		l.index.Start(f.item)
	}
}

// finish ends a try.
func (l *life) finish(i int) {
	f := l.flight[i]
	l.flight = slices.Delete(l.flight, i, i+1)
	l.tries[f.Origin]++
	failed := l.tries[f.Origin] <= f.fails
	attempt := 1
	if f.item != nil {
		attempt += f.item.Attempt
	}
	switch {
	case failed && attempt < historyTries && f.item == nil:
		l.park(f.source, l.now+l.rnd.Int64N(5), attempt)
		return
	case failed && attempt < historyTries:
		f.item.Attempt, f.item.Due = attempt, l.now+l.rnd.Int64N(5)
		l.index.Again(f.item)
		l.putEntry(f.item)
		return
	case failed:
		l.bury(f.source)
	default:
		l.send(f.source)
	}
	if f.item != nil {
		l.remove(f.item)
	} else {
		l.windows[f.Topic].Done(f.Offset)
	}
}

// seal begins a commit of all that has been done so far. Entries are put before payloads, and deleted after them: so that there is never a
// payload without its entry, which nobody would find. What is done first is deleted first, or one record of a key would be repeated when
// those after it are not.
func (l *life) seal() {
	c := &sealedPart{offsets: map[string]commitOf{}, firstLeg: true}
	for i := range l.unsent {
		c.effects = append(c.effects, len(l.unsent[i]))
	}
	l.rnd.Shuffle(len(l.dirty), func(i, j int) { l.dirty[i], l.dirty[j] = l.dirty[j], l.dirty[i] })
	for _, key := range l.dirty {
		value, present := l.rows[key]
		r := row{key: key, value: value, delete: !present}
		if present || l.rules.deletesInTheFirstLeg {
			c.puts = append(c.puts, r)
		} else {
			c.deletes = append(c.deletes, r)
		}
	}
	l.dirty = nil
	if !l.rules.rowsInAnyOrder {
		slices.SortStableFunc(c.puts, func(a, b row) int { return int(a.key[0]) - int(b.key[0]) })
		slices.SortFunc(c.deletes, func(a, b row) int { return cmp.Or(cmp.Compare(b.key[0], a.key[0]), cmp.Compare(a.key, b.key)) })
	}
	for topic, w := range l.windows {
		c.offsets[topic] = commitOf{low: w.Low(), main: w.Next(), holes: w.Holes(nil)}
	}
	l.sealed = c
}

// ack makes one thing last: whatever partition comes first. Outputs are sent as they are made, rows and offsets with the commit.
func (l *life) ack() bool {
	var ready []func()
	for i := range l.unsent {
		if len(l.unsent[i]) > 0 && (i != l.slow || l.chance(10)) {
			ready = append(ready, func() { l.ackEffect(i) })
		}
	}
	if c := l.sealed; c != nil {
		rest := slices.ContainsFunc(c.effects, func(n int) bool { return n > 0 })
		switch {
		case len(c.puts) > 0:
			ready = append(ready, func() { c.puts = l.ackRow(c.puts) })
		case rest:
		case len(c.deletes) > 0:
			ready = append(ready, func() { c.deletes = l.ackRow(c.deletes) })
		default:
			ready = append(ready, func() { l.committed, l.sealed = c.offsets, nil })
		}
	}
	if len(ready) == 0 {
		return false
	}
	ready[l.rnd.IntN(len(ready))]()
	return true
}

func (l *life) ackEffect(i int) {
	o := l.unsent[i][0]
	l.unsent[i] = l.unsent[i][1:]
	if i == outputCount {
		l.dead = append(l.dead, o)
	} else {
		l.outputs[i] = append(l.outputs[i], o)
	}
	if l.sealed != nil && l.sealed.effects[i] > 0 {
		l.sealed.effects[i]--
	}
}

func (l *life) ackRow(rows []row) []row {
	if rows[0].delete {
		delete(l.store, rows[0].key)
	} else {
		l.store[rows[0].key] = rows[0].value
	}
	return rows[1:]
}

// step does one thing, drawn by lot.
func (l *life) step() {
	switch n := l.rnd.IntN(20); {
	case n < 5:
		l.read(l.topics[l.rnd.IntN(len(l.topics))])
	case n < 8:
		l.run()
	case n < 12 && len(l.flight) > 0:
		l.finish(l.rnd.IntN(len(l.flight)))
	case n == 12 && len(l.flight) > 0:
		l.eject(l.flight[l.rnd.IntN(len(l.flight))])
	case n == 13:
		l.now += l.rnd.Int64N(5)
	case n == 14 && l.sealed == nil:
		l.seal()
	default:
		l.ack()
	}
}

// drain does what is left to be done, and says what stays undone.
func (l *life) drain() (stuck []string) {
	l.slow = none
	for idle := 0; idle < 3; idle++ {
		for progress := true; progress; l.now += 5 {
			progress = l.run()
			for _, topic := range l.topics {
				progress = l.read(topic) || progress
			}
			for len(l.flight) > 0 {
				l.finish(l.rnd.IntN(len(l.flight)))
				progress = true
			}
		}
		for l.ack() {
		}
		l.seal()
		for l.ack() {
		}
	}
	if s := l.index.Stats(l.now); s != (IndexStats{OldestDue: Never}) {
		stuck = append(stuck, fmt.Sprintf("index: %+v", s))
	}
	for key := range l.store {
		stuck = append(stuck, fmt.Sprintf("row %q", key))
	}
	for topic, c := range l.committed {
		if all := l.sources[topic]; c.low <= all[len(all)-1].Offset {
			stuck = append(stuck, fmt.Sprintf("%s at %d", topic, c.low))
		}
	}
	return stuck
}
