package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
)

var tp0 = streams.TopicPartition{Topic: topic}

// read is what a consumer at an offset would be given.
func read(from, n int64) []streams.ConsumerRecord {
	out := make([]streams.ConsumerRecord, n)
	for i := range out {
		out[i] = streams.ConsumerRecord{Topic: topic, Offset: from + int64(i), Generation: 1, Value: []byte(`{"From":"a","To":"b","Cents":5}`)}
	}
	return out
}

func (b *books) at(t *testing.T) int64 {
	t.Helper()
	have, err := b.Load(t.Context(), b.group, []streams.TopicPartition{tp0})
	require.NoError(t, err)
	return have[tp0]
}

func audited(t *testing.T, b *books) int {
	t.Helper()
	n, err := b.Audit(t.Context())
	require.NoError(t, err)
	return n
}

// Two processes, each of which believes that the partition is its own, book in any order.
func TestBooksOfTwoOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	owners := []*books{open(t, path), open(t, path)}
	goesOn := make([]int64, 2)
	rng := rand.New(rand.NewPCG(1, 1))
	refused := 0
	for range 60 {
		who := rng.IntN(2)
		n := 1 + rng.Int64N(4)
		err := owners[who].Book(t.Context(), read(goesOn[who], n))
		if err == nil {
			goesOn[who] += n
		} else {
			require.ErrorIs(t, err, offsetstore.ErrFenced)
			goesOn[who] = owners[who].at(t)
			refused++
		}
	}
	require.Greater(t, refused, 10)
	require.EqualValues(t, max(goesOn[0], goesOn[1]), audited(t, owners[0]))
}

func TestBooksOfARecordThatIsNone(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	records := read(0, 2)
	records[1].Value = []byte("{")
	require.ErrorContains(t, b.Book(t.Context(), records), "transfers-0@1")
	require.Zero(t, audited(t, b))
	require.NoError(t, b.Book(t.Context(), read(0, 2)), "nothing of it is left")
	require.Equal(t, 2, audited(t, b))
}

// What Audit is there for.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	for _, spoil := range []string{
		`INSERT INTO entries SELECT * FROM entries`,
		`UPDATE balances SET cents = cents + 1`,
		`UPDATE offsets SET next = next + 1`,
		`DELETE FROM entries WHERE at = 1`,
	} {
		b := open(t, filepath.Join(t.TempDir(), "ledger.db"))
		require.NoError(t, b.Book(t.Context(), read(0, 3)))
		require.Equal(t, 3, audited(t, b))
		_, err := b.db.Exec(spoil)
		require.NoError(t, err)
		_, err = b.Audit(t.Context())
		require.ErrorContains(t, err, "the books are wrong", spoil)
	}
}

// script is a consumer that gives what it is told to, and notes what is asked of it.
type script struct {
	polls [][]streams.ConsumerRecord
	books *books
	sunk  []streams.TopicPartition
	stop  context.CancelFunc
}

func (s *script) Poll(context.Context) ([]streams.ConsumerRecord, error) {
	if len(s.polls) == 0 {
		s.stop()
		return nil, nil
	}
	records := s.polls[0]
	s.polls = s.polls[1:]
	return records, nil
}

func (s *script) SeekTo(tp streams.TopicPartition, _ streams.StartAt) error {
	s.sunk = append(s.sunk, tp)
	_, err := s.books.Load(context.Background(), s.books.group, []streams.TopicPartition{tp})
	return err
}

func TestFollowGoesBackToWhereTheBooksAre(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	b, other := open(t, path), open(t, path)
	require.NoError(t, other.Book(t.Context(), read(0, 4)))
	ctx, stop := context.WithCancel(t.Context())
	s := &script{books: b, stop: stop, polls: [][]streams.ConsumerRecord{read(0, 3), read(4, 3)}}
	booked := 0
	require.NoError(t, b.follow(ctx, s, func(n int) { booked += n }))
	require.Equal(t, []streams.TopicPartition{tp0}, s.sunk)
	require.Equal(t, 3, booked)
	require.Equal(t, 7, audited(t, b))
}

func TestFollowEndsWithAnErrorOfTheConsumer(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	broken := errors.New("broken")
	require.ErrorIs(t, b.follow(t.Context(), failing{err: broken}, nil), broken)
}

type failing struct {
	source
	err error
}

func (f failing) Poll(context.Context) ([]streams.ConsumerRecord, error) { return nil, f.err }

func TestLedgerShowsTheBalances(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &kit.Flags{App: "ledger"}, "", 2000, &out))
	require.Contains(t, out.String(), "2000 transfers are booked, each once")
	require.Contains(t, out.String(), "emmy")
}
