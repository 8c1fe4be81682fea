package realkafka

import (
	"errors"
	"os"
	"sync"
	"testing"
)

var shared struct {
	once    sync.Once
	dir     string
	cluster *Cluster
	err     error
}

// Shared gives the one broker that all tests of a package share; the first that asks starts it. The package's TestMain must call StopShared.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "understudy-kafka-"); shared.err == nil {
			shared.cluster, shared.err = start(shared.dir, 1, nil)
		}
	})
	giveUp(t, shared.err)
	return shared.cluster
}

// StopShared stops the shared broker, if it was started, and removes its data.
func StopShared() error {
	var err error
	if shared.cluster != nil {
		err = shared.cluster.discard()
	}
	if shared.dir != "" {
		err = errors.Join(err, os.RemoveAll(shared.dir))
	}
	return err
}
