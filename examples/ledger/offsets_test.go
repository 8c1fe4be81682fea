package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore/offsetstoretest"
)

func open(t *testing.T, path string) *books {
	t.Helper()
	b, err := openBooks(path, "ledger")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func TestBooksAreAnOffsetStore(t *testing.T) {
	offsetstoretest.Run(t, func(t *testing.T) func() streams.OffsetStore {
		path := filepath.Join(t.TempDir(), "books.db")
		return func() streams.OffsetStore { return open(t, path) }
	})
}
