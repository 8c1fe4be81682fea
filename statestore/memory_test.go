package statestore_test

import (
	"testing"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/storetest"
)

// restartable lets the suite restart a Memory.
type restartable struct{ *statestore.Memory }

func (r restartable) Reopen() (statestore.Backend, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	r.Memory.Crash()
	return r, nil
}

func (r restartable) Crash() (statestore.Backend, error) {
	r.Memory.Crash()
	return r, nil
}

func TestMemoryConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) statestore.Backend { return restartable{statestore.NewMemory()} })
}
