package main

import (
	"slices"

	"github.com/understudy-streams/understudy/retry"
)

// runs are offsets, as ranges in order that do not touch.
type runs []retry.Run

// has says whether an offset is among them.
func (r runs) has(offset int64) bool {
	_, found := slices.BinarySearchFunc(r, offset, func(x retry.Run, o int64) int {
		switch {
		case x.To <= o:
			return -1
		case x.From > o:
			return 1
		}
		return 0
	})
	return found
}

// add adds a range.
func (r *runs) add(from, to int64) {
	if from >= to {
		return
	}
	// Those from lo to below hi touch it.
	lo, _ := slices.BinarySearchFunc(*r, from, func(x retry.Run, o int64) int {
		if x.To < o {
			return -1
		}
		return 1
	})
	hi := lo
	for hi < len(*r) && (*r)[hi].From <= to {
		from, to = min(from, (*r)[hi].From), max(to, (*r)[hi].To)
		hi++
	}
	*r = slices.Replace(*r, lo, hi, retry.Run{From: from, To: to})
}

// low is the first offset from zero on that is not among them.
func (r runs) low() int64 {
	if len(r) == 0 || r[0].From > 0 {
		return 0
	}
	return r[0].To
}

// gaps are the ranges between them.
func (r runs) gaps() []retry.Run {
	var out []retry.Run
	for i := 1; i < len(r); i++ {
		out = append(out, retry.Run{From: r[i-1].To, To: r[i].From})
	}
	return out
}
