package sim

import (
	"errors"

	"github.com/understudy-streams/understudy/statestore"
)

// specs are the stores of a task of subtopology 1.
func (w *world) specs() (all []statestore.Spec) {
	for _, s := range stores(&w.failing) {
		all = append(all, s.Spec)
	}
	return all
}

var errDisk = errors.New("input/output error")
