package task

import (
	"bytes"
	"errors"

	"github.com/understudy-streams/understudy/statestore"
)

// errReadInCallback is the error of a callback that reads. It cannot be run twice, and what it read might be written to before it has ended.
var errReadInCallback = errors.New("the callback of an asynchronous commit has read a store, which it cannot do where a policy has several workers: " +
	"read in Process and let the callback have the result")

// remote reads a store of the task from a worker.
type remote struct {
	w     *Worker
	store int
}

func (r *remote) ask(q Read) Answer {
	if r.w.item.call != nil {
		return Answer{Err: errReadInCallback}
	}
	q.Item, q.Store = r.w.item.ID, r.store
	return r.w.ask(q)
}

func (r *remote) Get(key []byte) (statestore.Row, bool, error) {
	a := r.ask(Read{Key: bytes.Clone(key)})
	return a.Row, a.Found, a.Err
}

func (r *remote) Scan(lo, hi []byte, reverse bool) statestore.Iterator {
	return &remoteScan{r: r, lo: bytes.Clone(lo), hi: bytes.Clone(hi), reverse: reverse, more: true}
}

// remoteScan asks for a range piece by piece.
type remoteScan struct {
	r       *remote
	lo, hi  []byte // of what has not been asked for
	reverse bool
	rows    []statestore.Change
	at      int // one behind the row it stands on
	more    bool
	err     error
}

func (s *remoteScan) Next() bool {
	if s.at < len(s.rows) {
		s.at++
		return true
	}
	if !s.more || s.err != nil {
		return false
	}
	a := s.r.ask(Read{Scan: true, Lo: s.lo, Hi: s.hi, Reverse: s.reverse})
	s.rows, s.at, s.more, s.err = a.Rows, 0, a.More, a.Err
	if s.err != nil || len(s.rows) == 0 {
		return false
	}
	if last := s.rows[len(s.rows)-1].Key; s.reverse {
		s.hi = last
	} else {
		s.lo = append(bytes.Clone(last), 0) // the next key that there can be
	}
	s.at = 1
	return true
}

func (s *remoteScan) Key() []byte {
	if s.at == 0 {
		return nil
	}
	return s.rows[s.at-1].Key
}

func (s *remoteScan) Row() statestore.Row {
	if s.at == 0 {
		return statestore.Row{}
	}
	c := &s.rows[s.at-1]
	return statestore.Row{Value: c.Value, Timestamp: c.Timestamp}
}

func (s *remoteScan) Close() error {
	s.more, s.rows, s.at = false, nil, 0
	return s.err
}
