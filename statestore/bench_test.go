package statestore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// nothing is a base without rows.
type nothing struct{}

func (nothing) Get([]byte) (Row, bool, error)      { return Row{}, false, nil }
func (nothing) Scan([]byte, []byte, bool) Iterator { return failedScan{} }

// countBed is what a count has: tasks with a store each, and records whose keys are drawn evenly.
type countBed struct {
	stores  []*Overlay
	keys    [][]byte // of records, by task in turn
	changes []Change
}

const countTasks, countKeys, countTurn = 8, 100_000, 2000 // records that a task takes in one turn

func newCountBed(keyBytes int, cfg OverlayConfig) *countBed {
	b := &countBed{}
	for range countTasks {
		b.stores = append(b.stores, NewOverlay(cfg))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	slab := make([]byte, 0, countTasks*countTurn*16*keyBytes)
	for turn := range countTasks * 16 {
		for range countTurn {
			n := rnd.IntN(countKeys/countTasks)*countTasks + turn%countTasks
			at := len(slab)
			slab = fmt.Appendf(slab, "k%0*d", keyBytes-1, n)
			b.keys = append(b.keys, slab[at:len(slab):len(slab)])
		}
	}
	return b
}

// count is what the node does for one record.
func count(o *Overlay, key []byte, ts int64) error {
	o.Begin()
	row, found, err := o.Get(key)
	if err != nil {
		return err
	}
	n := uint64(1)
	if found {
		n += binary.BigEndian.Uint64(row.Value)
		ts = max(ts, row.Timestamp)
	}
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], n)
	if err := o.Put(key, v[:], ts); err != nil {
		return err
	}
	o.Keep()
	return nil
}

func (c *countBed) commit() {
	for _, o := range c.stores {
		for i := range o.DirtyLen() {
			o.Dirty(i)
		}
		c.changes = o.Seal(c.changes[:0])
		o.Applied()
	}
}

// BenchmarkCount is per record of a count over 100,000 keys in 8 tasks, with a commit each so many records: a million is a second of a
// saturated run, 100,000 of a paced one, in which most records are the first of their key since the commit.
func BenchmarkCount(b *testing.B) {
	for _, every := range []int{1_000_000, 100_000} {
		for _, keyBytes := range []int{8, 24} {
			for _, warm := range []bool{false, true} {
				b.Run(fmt.Sprintf("commit=%d/key=%d/warm=%v", every, keyBytes, warm), func(b *testing.B) {
					bed := newCountBed(keyBytes, OverlayConfig{Base: nothing{}, CacheBytes: 8 << 20, KeepBefore: true})
					run := func(i int) {
						at := i % len(bed.keys)
						if warm && at%warmKeys == 0 {
							bed.stores[at/countTurn%countTasks].Warm(bed.keys[at : at+warmKeys])
						}
						if err := count(bed.stores[at/countTurn%countTasks], bed.keys[at], int64(i)); err != nil {
							b.Fatal(err)
						}
						if i%every == every-1 {
							bed.commit()
						}
					}
					for i := range 2_000_000 {
						run(i)
					}
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						run(i)
					}
				})
			}
		}
	}
}

// BenchmarkSeal is per dirty key: its first write, the look at it for the emission, the seal, the end of the commit.
func BenchmarkSeal(b *testing.B) {
	for _, before := range []bool{false, true} {
		b.Run(fmt.Sprintf("before=%v", before), func(b *testing.B) {
			o := NewOverlay(OverlayConfig{Base: nothing{}, CacheBytes: 64 << 20, KeepBefore: before})
			bed := newCountBed(8, OverlayConfig{})
			order := rand.New(rand.NewPCG(3, 4)).Perm(countKeys)
			var changes []Change
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := o.Put(bed.keys[order[i%countKeys]], bed.keys[0], 1); err != nil {
					b.Fatal(err)
				}
				if i%countKeys == countKeys-1 {
					for i := range o.DirtyLen() {
						o.Dirty(i)
					}
					changes = o.Seal(changes[:0])
					o.Applied()
				}
			}
		})
	}
}

// BenchmarkCleanGet is per read of a row that the cache has.
func BenchmarkCleanGet(b *testing.B) {
	bed := newCountBed(8, OverlayConfig{Base: nothing{}, CacheBytes: 8 << 20, KeepBefore: true})
	for i := range 2_000_000 {
		at := i % len(bed.keys)
		if err := count(bed.stores[at/countTurn%countTasks], bed.keys[at], int64(i)); err != nil {
			b.Fatal(err)
		}
	}
	bed.commit()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := i % len(bed.keys)
		if _, found, err := bed.stores[at/countTurn%countTasks].Get(bed.keys[at]); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkMiss is per read of a row that is not in the cache, which evicts another.
func BenchmarkMiss(b *testing.B) {
	o := NewOverlay(OverlayConfig{Base: nothing{}, CacheBytes: 1 << 20})
	var key [8]byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(key[:], uint64(i))
		if _, _, err := o.Get(key[:]); err != nil {
			b.Fatal(err)
		}
	}
}
