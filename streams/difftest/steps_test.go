package difftest_test

import (
	"slices"

	"github.com/understudy-streams/understudy/streams"
)

// rstream is a stream of the reference, beside the flow that it is to equal.
type rstream struct {
	w            *world
	f            flow
	k, v         kind
	keys, values serdeID // that sinks use
	rekeyed      bool
	subs         []func(t *rtask, r rec)
}

// rtable is a table of the reference.
type rtable struct {
	w            *world
	r            rows
	info         *storeInfo
	k, v         kind
	keys, values serdeID
	subs         []func(t *rtask, c change)
}

func or(named, has serdeID) serdeID {
	if named != byType {
		return named
	}
	return has
}

func (s *rstream) push(t *rtask, r rec) {
	for _, f := range s.subs {
		if t.failed != nil {
			return
		}
		f(t, r)
	}
}

func (x *rtable) push(t *rtask, c change) {
	for _, f := range x.subs {
		if t.failed != nil {
			return
		}
		f(t, c)
	}
}

// then is a stream behind s, with a step that calls f and gives it what to push to.
func (s *rstream) then(next rstream, f func(t *rtask, r rec, out *rstream)) *rstream {
	next.w = s.w
	out := &next
	s.subs = append(s.subs, func(t *rtask, r rec) { f(t, r, out) })
	return out
}

// called runs a function of the user on a record.
func called(t *rtask, o opts, k, v val) bool {
	if !o.fails(k, v) {
		return true
	}
	kind := streams.KindPanic
	if o.try {
		kind = streams.KindProcess
	}
	t.fail(o.name, kind)
	return false
}

func (s *rstream) filter(o opts, keep predicate) *rstream {
	next := rstream{f: s.f.filter(o, keep), k: s.k, v: s.v, keys: or(o.keys, s.keys), values: or(o.values, s.values), rekeyed: s.rekeyed}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		if k, v := r.k.arg(), r.v.arg(); called(t, o, k, v) && keep(k, v) != o.not {
			out.push(t, r)
		}
	})
}

func (s *rstream) mapKeys(o opts, to kind, key, value mapping) *rstream {
	next := rstream{f: s.f.mapKeys(o, to, key, value), k: to, v: s.v, keys: o.keys, values: o.values, rekeyed: true}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		if k, v := r.k.arg(), r.v.arg(); called(t, o, k, v) {
			r.k, r.v = key(k, v), value(k, v)
			out.push(t, r)
		}
	})
}

func (s *rstream) mapValues(o opts, to kind, f mapping) *rstream {
	next := rstream{f: s.f.mapValues(o, to, f), k: s.k, v: to, keys: or(o.keys, s.keys), values: o.values, rekeyed: s.rekeyed}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		switch v := r.v.arg(); {
		case r.v.null && !o.try:
			r.v = null(to)
			out.push(t, r)
		case called(t, o, val{}, v):
			r.v = f(val{}, v)
			out.push(t, r)
		}
	})
}

func (s *rstream) flatMap(o opts, f expansion) *rstream {
	next := rstream{f: s.f.flatMap(o, f), k: kStr, v: s.v, keys: o.keys, values: o.values, rekeyed: true}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		k, v := r.k.arg(), r.v.arg()
		if !called(t, o, k, v) {
			return
		}
		for i, w := range f(k, v) {
			r.k, r.v = val{kind: kStr, s: "abc"[:i]}, w
			out.push(t, r)
		}
	})
}

func (s *rstream) flatMapValues(o opts, to kind, f expansion) *rstream {
	next := rstream{f: s.f.flatMapValues(o, to, f), k: s.k, v: to, keys: or(o.keys, s.keys), values: o.values, rekeyed: s.rekeyed}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		v := r.v.arg()
		if r.v.null && !o.try || !called(t, o, val{}, v) {
			return
		}
		for _, w := range f(val{}, v) {
			r.v = w
			out.push(t, r)
		}
	})
}

func (s *rstream) selectKey(o opts, to kind, f mapping) *rstream {
	next := rstream{f: s.f.selectKey(o, to, f), k: to, v: s.v, keys: o.keys, values: or(o.values, s.values), rekeyed: true}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		if k, v := r.k.arg(), r.v.arg(); called(t, o, k, v) {
			r.k = f(k, v)
			out.push(t, r)
		}
	})
}

func (s *rstream) peek(o opts) *rstream {
	next := rstream{f: s.f.peek(o), k: s.k, v: s.v, keys: or(o.keys, s.keys), values: or(o.values, s.values), rekeyed: s.rekeyed}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		if called(t, o, r.k.arg(), r.v.arg()) {
			out.push(t, r)
		}
	})
}

func (s *rstream) split(a, b predicate) []*rstream {
	var all []*rstream
	for _, f := range s.f.split(a, b) {
		all = append(all, &rstream{w: s.w, f: f, k: s.k, v: s.v, keys: s.keys, values: s.values, rekeyed: s.rekeyed})
	}
	s.subs = append(s.subs, func(t *rtask, r rec) {
		switch k, v := r.k.arg(), r.v.arg(); {
		case a(k, v):
			all[0].push(t, r)
		case b(k, v):
			all[1].push(t, r)
		default:
			all[2].push(t, r)
		}
	})
	return all
}

// agree is the serde that streams with these have after a Merge.
func agree(all []serdeID) serdeID {
	out := byType
	for _, id := range all {
		switch {
		case id == byType || id == out:
		case out == byType:
			out = id
		default:
			return byType
		}
	}
	return out
}

func (s *rstream) merge(others []*rstream) *rstream {
	out := &rstream{w: s.w, k: s.k, v: s.v, rekeyed: s.rekeyed}
	keys, values := []serdeID{s.keys}, []serdeID{s.values}
	var flows []flow
	for _, o := range others {
		flows = append(flows, o.f)
		keys, values = append(keys, o.keys), append(values, o.values)
		out.rekeyed = out.rekeyed || o.rekeyed
		o.subs = append(o.subs, out.push)
	}
	s.subs = append(s.subs, out.push)
	out.f, out.keys, out.values = s.f.merge(flows...), agree(keys), agree(values)
	return out
}

// through sends a stream through a repartition topic.
func (s *rstream) through(name string, f flow, o opts, dropNull bool) *rstream {
	topic := "test-" + name + "-repartition"
	out := &rstream{w: s.w, f: f, k: s.k, v: s.v, keys: or(o.keys, s.keys), values: or(o.values, s.values)}
	s.subs = append(s.subs, func(t *rtask, r rec) {
		if r.k.null && dropNull {
			t.drop("null-key")
			return
		}
		t.send(topic, r, out.keys, out.values)
	})
	s.w.entries[topic] = append(s.w.entries[topic], out.push)
	return out
}

func (s *rstream) repartition(o opts) *rstream {
	return s.through(o.name, s.f.repartition(o), o, false)
}

func (s *rstream) to(o opts, topic string) {
	s.f.to(o, topic)
	s.subs = append(s.subs, func(t *rtask, r rec) { t.send(topic, r, or(o.keys, s.keys), or(o.values, s.values)) })
}

func (s *rstream) toTopic(o opts, choose func(k, v val) string) {
	s.f.toTopic(o, choose)
	s.subs = append(s.subs, func(t *rtask, r rec) {
		t.send(choose(r.k.arg(), r.v.arg()), r, or(o.keys, s.keys), or(o.values, s.values))
	})
}

func (s *rstream) process(o opts) *rstream {
	info := &storeInfo{name: o.name, keys: usual, values: usual}
	s.w.stores[o.name] = info
	s.w.order = append(s.w.order, info)
	next := rstream{f: s.f.process(o), k: s.k, v: s.v, keys: o.keys, values: o.values, rekeyed: true}
	return s.then(next, func(t *rtask, r rec, out *rstream) {
		seen, at := t.store(o.name), val{kind: kStr, s: seenKey(r.v.arg())}
		n, _ := seen.get(at)
		n.v.kind = kInt
		before := n.v.n
		n.v.n, n.ts = before+1, r.ts
		seen.write(at, n, true)
		if before == seenLimit {
			seen.write(at, row{null(kInt), r.ts}, false)
		}
		out.push(t, r)
		switch o.mode {
		case 1:
			out.push(t, rec{null(s.k), r.v, r.ts, r.headers})
		case 2:
			out.push(t, rec{r.k, r.v, r.ts + 1, []streams.Header{{Key: "p", Value: []byte{}}}})
			seen.write(val{kind: kStr, s: "after"}, row{val{kind: kInt, n: before}, r.ts}, true)
		case 3:
			for _, at := range []string{"", "x", "y"} {
				if n, ok := seen.get(val{kind: kStr, s: at}); ok {
					out.push(t, rec{r.k, summary(s.v, at, n.v.n), r.ts, r.headers})
				}
			}
		}
		o.try = true
		called(t, o, r.k.arg(), r.v.arg())
	})
}

// table makes a table whose rows update computes; it answers false for a record that changes nothing.
func (s *rstream) table(o opts, r rows, v kind, keys, values serdeID, update func(t *rtask, r rec, old row, found bool) (row, bool)) *rtable {
	x := &rtable{w: s.w, r: r, k: s.k, v: v, keys: keys, values: values}
	x.info = &storeInfo{name: o.name, keys: keys, values: values, unlogged: o.unlogged, atCommit: o.emission != streams.EmitPerUpdate, emit: x.push}
	s.w.stores[o.name] = x.info
	s.w.order = append(s.w.order, x.info)
	s.subs = append(s.subs, func(t *rtask, r rec) {
		if r.k.null {
			t.drop("null-key")
			return
		}
		old, found := t.store(o.name).get(r.k)
		now, ok := update(t, r, old, found)
		if !ok || now.v.null && !found {
			return
		}
		t.store(o.name).write(r.k, now, !now.v.null)
		if !x.info.atCommit {
			x.push(t, change{r.k, old.v, now.v, found, !now.v.null, now.ts, r.headers})
		}
	})
	return x
}

func (s *rstream) toTable(o opts) *rtable {
	r := s.f.toTable(o)
	if s.rekeyed {
		s = s.through(o.name, nil, o, true)
	}
	return s.tableOf(o, r)
}

func (s *rstream) tableOf(o opts, r rows) *rtable {
	return s.table(o, r, s.v, or(o.keys, s.keys), or(o.values, s.values), func(_ *rtask, r rec, _ row, _ bool) (row, bool) {
		return row{r.v, r.ts}, true
	})
}

// aggregation is what a grouping is followed by.
type aggregation struct {
	how   int // 0 Count, 1 Reduce, 2 Aggregate
	to    kind
	f     mapping
	group opts
	by    mapping // nil: GroupByKey
	byTo  kind
}

func (s *rstream) aggregate(o opts, a aggregation) *rtable {
	g := func() groups {
		if a.by == nil {
			return s.f.groupByKey(a.group)
		}
		return s.f.group(a.group, a.by, a.byTo)
	}()
	if a.by != nil {
		grouping := a.group
		grouping.name = "groupby-" + grouping.name
		s = s.then(rstream{k: a.byTo, v: s.v, keys: byType, values: s.values, rekeyed: true}, func(t *rtask, r rec, out *rstream) {
			if k, v := r.k.arg(), r.v.arg(); called(t, grouping, k, v) {
				r.k = a.by(k, v)
				out.push(t, r)
			}
		})
	}
	if s.rekeyed {
		s = s.through(a.group.name, nil, a.group, true)
	} else { // GroupByKey names serdes for what is behind it
		s = s.then(rstream{k: s.k, v: s.v, keys: or(a.group.keys, s.keys), values: or(a.group.values, s.values)}, func(t *rtask, r rec, out *rstream) { out.push(t, r) })
	}
	return s.fold(o, a, g)
}

func (s *rstream) fold(o opts, a aggregation, g groups) *rtable {
	var r rows
	v, values, node := s.v, s.values, o
	node.try = false
	switch a.how {
	case 0:
		r, v, values = g.count(o), kInt, usual
	case 1:
		r = g.reduce(o, a.f)
		node.name = "reduce-" + o.name
	default:
		r, v, values = g.aggregate(o, a.to, a.f), a.to, byType
		node.name = "aggregate-" + o.name
	}
	return s.table(o, r, v, or(o.keys, s.keys), or(o.values, values), func(t *rtask, r rec, old row, found bool) (row, bool) {
		if r.v.null {
			t.drop("null-value")
			return row{}, false
		}
		now := row{ts: r.ts}
		if found {
			now.ts = max(r.ts, old.ts)
		}
		switch {
		case a.how == 0:
			now.v = val{kind: kInt, n: old.v.n + 1}
		case a.how == 1 && !found:
			now.v = r.v
		default:
			was := old.v
			if !found {
				was = null(a.to)
			}
			if !called(t, node, was, r.v) {
				return row{}, false
			}
			now.v = a.f(was, r.v)
		}
		return now, true
	})
}

func (x *rtable) then(next rtable, f func(t *rtask, c change, out *rtable)) *rtable {
	next.w, next.info = x.w, x.info
	out := &next
	x.subs = append(x.subs, func(t *rtask, c change) {
		f(t, c, out)
	})
	return out
}

func (x *rtable) filter(o opts, keep predicate) *rtable {
	next := rtable{r: x.r.filter(o, keep), k: x.k, v: x.v, keys: or(o.keys, x.keys), values: or(o.values, x.values)}
	return x.then(next, func(t *rtask, c change, out *rtable) {
		c.hasOld, c.hasNew = c.hasOld && keep(c.k, c.old), c.hasNew && keep(c.k, c.new)
		if c.hasOld || c.hasNew {
			out.push(t, c)
		}
	})
}

func (x *rtable) mapValues(o opts, to kind, f mapping) *rtable {
	next := rtable{r: x.r.mapValues(o, to, f), k: x.k, v: to, keys: or(o.keys, x.keys), values: o.values}
	return x.then(next, func(t *rtask, c change, out *rtable) {
		if c.hasOld {
			c.old = f(val{}, c.old)
		}
		if c.hasNew {
			c.new = f(val{}, c.new)
		}
		c.hasOld, c.hasNew = c.hasOld && !c.old.null, c.hasNew && !c.new.null
		if c.hasOld || c.hasNew {
			out.push(t, c)
		}
	})
}

func (x *rtable) toStream() *rstream {
	s := &rstream{w: x.w, f: x.r.toStream(), k: x.k, v: x.v, keys: x.keys, values: x.values}
	x.subs = append(x.subs, func(t *rtask, c change) {
		r := rec{k: c.k, v: null(x.v), ts: c.ts, headers: slices.Clone(c.headers)}
		if c.hasNew {
			r.v = c.new
		}
		s.push(t, r)
	})
	return s
}
