package statestore

import "bytes"

// tree is a sorted map from keys to rows that can be snapshotted at no cost: nodes older than the last snapshot are copied before they are
// changed. A treap; the priorities are hashes of the keys, so its shape depends on nothing but what is in it.
type tree struct {
	root *treeNode
	age  uint64
	n    int
}

type treeNode struct {
	left, right *treeNode
	age         uint64
	priority    uint32
	key         []byte
	row         Row
}

// snapshot returns the tree as it is now; later changes of t do not show in it.
func (t *tree) snapshot() tree {
	s := *t
	t.age++
	return s
}

// own returns a node that may be changed: n itself if no snapshot has it.
func (t *tree) own(n *treeNode) *treeNode {
	if n.age == t.age {
		return n
	}
	c := *n
	c.age = t.age
	return &c
}

func (t *tree) get(key []byte) (Row, bool) {
	for n := t.root; n != nil; {
		switch c := bytes.Compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.row, true
		}
	}
	return Row{}, false
}

// put stores copies of key and row.Value.
func (t *tree) put(key []byte, row Row) {
	row.Value = append([]byte{}, row.Value...)
	if t.replace(key, row) {
		return
	}
	n := &treeNode{age: t.age, priority: hashKey(1, key), key: append([]byte{}, key...), row: row}
	at := &t.root
	for *at != nil && (*at).priority >= n.priority {
		*at = t.own(*at)
		if bytes.Compare(key, (*at).key) < 0 {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	n.left, n.right = t.split(*at, key)
	*at = n
	t.n++
}

func (t *tree) replace(key []byte, row Row) bool {
	if _, ok := t.get(key); !ok {
		return false
	}
	(*t.path(key)).row = row
	return true
}

// path owns the nodes down to key, which is in the tree, and returns the pointer to its node.
func (t *tree) path(key []byte) **treeNode {
	at := &t.root
	for {
		*at = t.own(*at)
		switch c := bytes.Compare(key, (*at).key); {
		case c < 0:
			at = &(*at).left
		case c > 0:
			at = &(*at).right
		default:
			return at
		}
	}
}

func (t *tree) split(n *treeNode, key []byte) (less, more *treeNode) {
	l, m := &less, &more
	for n != nil {
		n = t.own(n)
		if bytes.Compare(n.key, key) < 0 {
			*l = n
			l, n = &n.right, n.right
		} else {
			*m = n
			m, n = &n.left, n.left
		}
	}
	*l, *m = nil, nil
	return less, more
}

func (t *tree) delete(key []byte) {
	if _, ok := t.get(key); !ok {
		return
	}
	at := t.path(key)
	l, r := (*at).left, (*at).right
	for l != nil && r != nil {
		if l.priority >= r.priority {
			*at = t.own(l)
			at, l = &(*at).right, (*at).right
		} else {
			*at = t.own(r)
			at, r = &(*at).left, (*at).left
		}
	}
	if *at = l; l == nil {
		*at = r
	}
	t.n--
}

// treeScan iterates over a snapshot, seeking each key from the root.
type treeScan struct {
	root    *treeNode
	lo, hi  []byte
	reverse bool
	at      *treeNode
	done    bool
}

func (s *treeScan) Next() bool {
	if s.done {
		return false
	}
	if s.reverse {
		s.at = s.before()
	} else {
		s.at = s.after()
	}
	s.done = s.at == nil
	return !s.done
}

// after returns the first node past the current one, or from lo on.
func (s *treeScan) after() (found *treeNode) {
	for n := s.root; n != nil; {
		if s.at != nil && bytes.Compare(n.key, s.at.key) <= 0 || s.at == nil && bytes.Compare(n.key, s.lo) < 0 {
			n = n.right
		} else {
			found, n = n, n.left
		}
	}
	if found != nil && s.hi != nil && bytes.Compare(found.key, s.hi) >= 0 {
		return nil
	}
	return found
}

// before returns the last node ahead of the current one, or of hi.
func (s *treeScan) before() (found *treeNode) {
	for n := s.root; n != nil; {
		if s.at != nil && bytes.Compare(n.key, s.at.key) >= 0 || s.at == nil && s.hi != nil && bytes.Compare(n.key, s.hi) >= 0 {
			n = n.left
		} else {
			found, n = n, n.right
		}
	}
	if found != nil && bytes.Compare(found.key, s.lo) < 0 {
		return nil
	}
	return found
}

func (s *treeScan) Key() []byte {
	if s.at == nil {
		return nil
	}
	return s.at.key
}

func (s *treeScan) Row() Row {
	if s.at == nil {
		return Row{}
	}
	return s.at.row
}

func (s *treeScan) Close() error {
	s.done = true
	return nil
}
