package offsetstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

var t0 = streams.TopicPartition{Topic: "t"}

// sums is a database with a sum of all records of a partition, beside the offsets.
type sums struct {
	t  *testing.T
	db *pebble.DB
	*Pebble
}

func openSums(t *testing.T, fs vfs.FS) *sums {
	t.Helper()
	db, err := pebble.Open("db", &pebble.Options{FS: fs, Logger: quiet{}, DisableAutomaticCompactions: true})
	require.NoError(t, err)
	return &sums{t, db, NewPebble(db, []byte("o/"))}
}

// quiet is a logger for a database that must not give up.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (s *sums) sum() uint64 {
	v, closer, err := s.db.Get([]byte("sum"))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0
	}
	require.NoError(s.t, err)
	defer closer.Close()
	return binary.BigEndian.Uint64(v)
}

// apply adds the records [from, to), of which each is worth its offset, to what the sum is then.
func (s *sums) apply(generation int32, from, to int64) error {
	b := s.db.NewBatch()
	defer b.Close()
	sum := s.sum()
	for n := max(from, 0); n < to; n++ {
		sum += uint64(n)
	}
	require.NoError(s.t, b.Set([]byte("sum"), binary.BigEndian.AppendUint64(nil, sum), nil))
	return s.SaveWith(s.t.Context(), b, "g", generation, map[streams.TopicPartition]Span{t0: {from, to}})
}

func (s *sums) next() int64 {
	have, err := s.Load(s.t.Context(), "g", []streams.TopicPartition{t0})
	require.NoError(s.t, err)
	if n, ok := have[t0]; ok {
		return n
	}
	return Nothing
}

func (s *sums) exactlyOnce() int64 {
	s.t.Helper()
	next := s.next()
	require.Equal(s.t, uint64(max(next, 0)*(next-1)/2), s.sum(), "offset %d", next)
	return next
}

// Two who both believe to have the partition: each record counts once, whoever of them writes when.
func TestPebbleWithResultsIsExactlyOnce(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	rng := rand.New(rand.NewPCG(1, 1))
	goesOnFrom := [2]int64{Nothing, Nothing}
	refused := 0
	for range 2000 {
		who := rng.IntN(2)
		from := goesOnFrom[who]
		to := max(from, 0) + 1 + rng.Int64N(5)
		switch err := s.apply(int32(rng.IntN(2)), from, to); { // a generation says nothing here: each has just loaded
		case err == nil:
			goesOnFrom[who] = to
		default:
			require.ErrorIs(t, err, ErrFenced)
			refused++
			goesOnFrom[who] = s.next()
		}
		s.exactlyOnce()
	}
	require.Greater(t, refused, 100)
}

func TestPebbleRefusesAnOlderGenerationAndLeavesTheBatch(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	require.NoError(t, s.apply(3, Nothing, 10))
	b := s.db.NewBatch()
	require.NoError(t, b.Set([]byte("sum"), []byte("spoiled!"), nil))
	for _, span := range []Span{{10, 12}, {9, 12}} {
		require.ErrorIs(t, s.SaveWith(t.Context(), b, "g", 2, map[streams.TopicPartition]Span{t0: span, {Topic: "u"}: {Nothing, 1}}), ErrFenced)
	}
	require.EqualValues(t, 1, b.Count())
	require.NoError(t, b.Close())
	require.EqualValues(t, 10, s.exactlyOnce())
}

func TestPebbleRowOfSomebodyElse(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	require.NoError(t, s.db.Set(s.key("g", t0), []byte("?"), nil))
	_, err := s.Load(t.Context(), "g", []streams.TopicPartition{t0})
	require.ErrorContains(t, err, "t-0")
	require.ErrorContains(t, err, "the prefix is somebody else's")
	require.Error(t, s.Save(t.Context(), "g", 1, map[streams.TopicPartition]int64{t0: 1}))
}

// Wherever a machine stops, results and offset are those of the same batch, and nothing that was acknowledged is missing.
func TestPebbleSurvivesACrashAtEachOperation(t *testing.T) {
	mem := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(1, 1))
	var left []*vfs.MemFS
	var atLeast []int64
	saved, on := int64(Nothing), false
	s := openSums(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(errorfs.Op) error {
		if on {
			left = append(left, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
			atLeast = append(atLeast, saved)
		}
		return nil
	})))
	on = true
	for n := range int64(60) {
		to := max(saved, 0) + 1 + n%4
		require.NoError(t, s.apply(1, saved, to))
		saved = to
	}
	on = false
	require.NoError(t, s.db.Close())
	require.Greater(t, len(left), 100)
	for i, fs := range left {
		again := openSums(t, fs)
		next := again.exactlyOnce()
		require.GreaterOrEqual(t, next, atLeast[i])
		require.NoError(t, again.apply(1, next, max(next, 0)+3), "and it goes on from there")
		again.exactlyOnce()
		require.NoError(t, again.db.Close())
	}
}
