package streams

// producer is the end of a node that makes new records: the item it pushes, and what turns nil into null.
type producer[K, V any] struct {
	out       *fan[K, V]
	nullKey   func(K) bool
	nullValue func(V) bool
	it        item[K, V]
}

func newProducer[K, V any](in *instance, s *step) producer[K, V] {
	return producer[K, V]{out: in.out[K, V](s), nullKey: nullOf[K](), nullValue: nullOf[V]()}
}

// push sends the item on, after key and value were set. What is passed on in its raw form is not null, and may not be decoded: only what
// was made is looked at.
func (p *producer[K, V]) push() {
	if p.it.rawKey == nil {
		p.it.nullKey = p.it.nullKey || isNull(p.nullKey, p.it.key)
	}
	if p.it.rawValue == nil {
		p.it.nullValue = p.it.nullValue || isNull(p.nullValue, p.it.value)
	}
	p.out.push(&p.it)
}

// inherit makes the item one with the timestamp and headers of another, and neither key nor value.
func inherit[K, V, K2, V2 any](to *item[K2, V2], from *item[K, V]) {
	to.ts, to.nullKey, to.nullValue = from.ts, false, false
	// A pointer that is not written costs the garbage collector nothing.
	if to.headers != nil || from.headers != nil {
		to.headers = from.headers
	}
	if to.rawKey != nil {
		to.rawKey = nil
	}
	if to.rawValue != nil {
		to.rawValue = nil
	}
}

// keepKey makes the item one with the key, timestamp and headers of another. A key that nobody looks at stays behind, if it goes on in its raw form.
func (p *producer[K, W]) keepKey[V any](from *item[K, V]) {
	to := &p.it
	to.ts, to.rawKey, to.nullKey, to.nullValue = from.ts, from.rawKey, from.nullKey, false
	if p.out.need&needKey != 0 || from.rawKey == nil {
		to.key = from.key
	}
	if to.headers != nil || from.headers != nil {
		to.headers = from.headers
	}
	if to.rawValue != nil {
		to.rawValue = nil
	}
}

type filterNode[K, V any] struct {
	in   *instance
	step *step
	out  *fan[K, V]
	f    func(K, V) bool
	want bool
}

func (n *filterNode[K, V]) needs() need { return needKey | needValue | n.out.need }

func (n *filterNode[K, V]) warms() []int { return n.out.warm }

func (n *filterNode[K, V]) push(it *item[K, V]) {
	n.in.env.Enter(n.step.id)
	if n.f(it.key, it.value) == n.want {
		n.out.push(it)
	}
}

type mapNode[K, V, K2, V2 any] struct {
	in   *instance
	step *step
	to   producer[K2, V2]
	f    func(K, V) (K2, V2)
}

func (n *mapNode[K, V, K2, V2]) needs() need { return needKey | needValue }

func (n *mapNode[K, V, K2, V2]) push(it *item[K, V]) {
	inherit(&n.to.it, it)
	n.in.env.Enter(n.step.id)
	n.to.it.key, n.to.it.value = n.f(it.key, it.value)
	n.to.push()
}

type mapValuesNode[K, V, W any] struct {
	in   *instance
	step *step
	to   producer[K, W]
	f    func(V) W
}

func (n *mapValuesNode[K, V, W]) needs() need { return needValue | n.to.out.need&needKey }

func (n *mapValuesNode[K, V, W]) warms() []int { return n.to.out.warm }

func (n *mapValuesNode[K, V, W]) push(it *item[K, V]) {
	n.to.keepKey(it)
	if it.nullValue {
		var zero W
		n.to.it.value, n.to.it.nullValue = zero, true
	} else {
		n.in.env.Enter(n.step.id)
		n.to.it.value = n.f(it.value)
	}
	n.to.push()
}

type flatMapNode[K, V, K2, V2 any] struct {
	in   *instance
	step *step
	to   producer[K2, V2]
	f    func(K, V) []KeyValue[K2, V2]
}

func (n *flatMapNode[K, V, K2, V2]) needs() need { return needKey | needValue }

func (n *flatMapNode[K, V, K2, V2]) push(it *item[K, V]) {
	n.in.env.Enter(n.step.id)
	for _, kv := range n.f(it.key, it.value) {
		if n.in.env.Failed() {
			return
		}
		inherit(&n.to.it, it)
		n.to.it.key, n.to.it.value = kv.Key, kv.Value
		n.to.push()
	}
}

type flatMapValuesNode[K, V, W any] struct {
	in   *instance
	step *step
	to   producer[K, W]
	f    func(V) []W
}

func (n *flatMapValuesNode[K, V, W]) needs() need { return needValue | n.to.out.need&needKey }

func (n *flatMapValuesNode[K, V, W]) warms() []int { return n.to.out.warm }

func (n *flatMapValuesNode[K, V, W]) push(it *item[K, V]) {
	if it.nullValue {
		return
	}
	n.in.env.Enter(n.step.id)
	for _, w := range n.f(it.value) {
		if n.in.env.Failed() {
			return
		}
		n.to.keepKey(it)
		n.to.it.value = w
		n.to.push()
	}
}

type selectKeyNode[K, V, K2 any] struct {
	in   *instance
	step *step
	to   producer[K2, V]
	f    func(K, V) K2
}

func (n *selectKeyNode[K, V, K2]) needs() need { return needKey | needValue }

func (n *selectKeyNode[K, V, K2]) push(it *item[K, V]) {
	keepValue(&n.to.it, it)
	n.in.env.Enter(n.step.id)
	n.to.it.key = n.f(it.key, it.value)
	n.to.push()
}

// keepValue makes the item one with the value, timestamp and headers of another.
func keepValue[K, K2, V any](to *item[K2, V], from *item[K, V]) {
	inherit(to, from)
	to.value, to.rawValue, to.nullValue = from.value, from.rawValue, from.nullValue
}

// peekNode is Peek, and ForEach where nothing is attached to it.
type peekNode[K, V any] struct {
	in   *instance
	step *step
	out  *fan[K, V]
	f    func(K, V)
}

func (n *peekNode[K, V]) needs() need { return needKey | needValue | n.out.need }

func (n *peekNode[K, V]) warms() []int { return n.out.warm }

func (n *peekNode[K, V]) push(it *item[K, V]) {
	n.in.env.Enter(n.step.id)
	n.f(it.key, it.value)
	n.out.push(it)
}

type splitNode[K, V any] struct {
	in       *instance
	step     *step
	branches []func(K, V) bool
	outs     []*fan[K, V] // one more than branches
}

func (n *splitNode[K, V]) needs() need {
	all := needKey | needValue
	for _, out := range n.outs {
		all |= out.need
	}
	return all
}

func (n *splitNode[K, V]) push(it *item[K, V]) {
	n.in.env.Enter(n.step.id)
	for i, f := range n.branches {
		if f(it.key, it.value) {
			n.outs[i].push(it)
			return
		}
	}
	n.outs[len(n.branches)].push(it)
}

// mergeNode is one input of a Merge. Raw bytes that are not in the serdes of the merged stream are left behind.
type mergeNode[K, V any] struct {
	out                  *fan[K, V]
	stripKey, stripValue bool
	it                   item[K, V]
}

func (n *mergeNode[K, V]) needs() need { return n.out.need }

func (n *mergeNode[K, V]) warms() []int {
	if n.stripKey {
		return nil
	}
	return n.out.warm
}

func (n *mergeNode[K, V]) push(it *item[K, V]) {
	if !n.stripKey && !n.stripValue {
		n.out.push(it)
		return
	}
	n.it = *it
	if n.stripKey {
		n.it.rawKey = nil
	}
	if n.stripValue {
		n.it.rawValue = nil
	}
	n.out.push(&n.it)
}
