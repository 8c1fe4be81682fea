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
	var records []streams.ConsumerRecord
	for n := max(from, 0); n < to; n++ {
		sum += uint64(n)
		records = append(records, streams.ConsumerRecord{Topic: t0.Topic, Offset: n, Generation: generation})
	}
	require.NoError(s.t, b.Set([]byte("sum"), binary.BigEndian.AppendUint64(nil, sum), nil))
	return s.SaveWith(s.t.Context(), b, "g", records...)
}

func (s *sums) next() int64 {
	have, err := s.Load(s.t.Context(), "g", []streams.TopicPartition{t0})
	require.NoError(s.t, err)
	if n, ok := have[t0]; ok {
		return n
	}
	return nothing
}

func (s *sums) exactlyOnce() int64 {
	s.t.Helper()
	next := s.next()
	require.Equal(s.t, uint64(max(next, 0)*(next-1)/2), s.sum(), "offset %d", next)
	return next
}

// holds is exactlyOnce, by one who has no part in it.
func (s *sums) holds() { (&sums{s.t, s.db, s.Another()}).exactlyOnce() }

// Two who both believe to have the partition: each record counts once, whoever of them writes when.
func TestPebbleWithResultsIsExactlyOnce(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	owners := [2]*sums{s, {t, s.db, s.Another()}}
	goesOnFrom := [2]int64{owners[0].next(), owners[1].next()}
	rng := rand.New(rand.NewPCG(1, 1))
	refused := 0
	for range 2000 {
		who := rng.IntN(2)
		from := goesOnFrom[who]
		to := max(from, 0) + 1 + rng.Int64N(5)
		switch err := owners[who].apply(int32(rng.IntN(2)), from, to); {
		case err == nil:
			goesOnFrom[who] = to
		default:
			require.ErrorIs(t, err, ErrFenced)
			require.ErrorContains(t, owners[who].apply(9, from, to), "SeekTo", "it has to go back first")
			refused++
			goesOnFrom[who] = owners[who].next()
		}
		s.holds()
	}
	require.Greater(t, refused, 100)
}

func TestPebbleRefusesAnOlderGenerationAndLeavesTheBatch(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	s.next()
	require.NoError(t, s.apply(3, nothing, 10))
	b := s.db.NewBatch()
	require.NoError(t, b.Set([]byte("sum"), []byte("spoiled!"), nil))
	late := streams.ConsumerRecord{Topic: t0.Topic, Offset: 10, Generation: 2}
	require.ErrorIs(t, s.SaveWith(t.Context(), b, "g", late), ErrFenced)
	require.ErrorContains(t, s.SaveWith(t.Context(), b, "never loaded", late), "has not been loaded")
	require.EqualValues(t, 1, b.Count())
	require.NoError(t, b.Close())
	require.EqualValues(t, 10, s.exactlyOnce())
}

// What commits of the consumer have saved is gone on from.
func TestPebbleMayMixSaves(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	s.next()
	require.NoError(t, s.apply(1, nothing, 4))
	require.NoError(t, s.Save(t.Context(), "g", 1, map[streams.TopicPartition]int64{t0: 2}))
	require.NoError(t, s.apply(1, 2, 4))
}

func TestPebbleRowOfSomebodyElse(t *testing.T) {
	s := openSums(t, vfs.NewMem())
	defer func() { require.NoError(t, s.db.Close()) }()
	require.NoError(t, s.db.Set(s.shared.key("g", t0), []byte("?"), nil))
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
	saved, on := int64(nothing), false
	s := openSums(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(errorfs.Op) error {
		if on {
			left = append(left, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
			atLeast = append(atLeast, saved)
		}
		return nil
	})))
	s.next()
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
