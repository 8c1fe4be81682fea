package retry_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/understudy-streams/understudy/retry"
)

// BenchmarkWindow takes and does records with so many in flight, in order and in a random order.
func BenchmarkWindow(b *testing.B) {
	for _, inFlight := range []int{1, 100, 4000} {
		b.Run(fmt.Sprintf("in order, %d in flight", inFlight), func(b *testing.B) {
			w := retry.NewWindow(0)
			b.ReportAllocs()
			for i := range int64(b.N) {
				w.Taken(i)
				w.Done(i - int64(inFlight) + 1)
			}
		})
	}
	for _, inFlight := range []int{100, 4000} {
		b.Run(fmt.Sprintf("at random, %d in flight", inFlight), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			flying := make([]int64, inFlight)
			w := retry.NewWindow(0)
			offset := int64(0)
			for i := range flying {
				w.Taken(offset)
				flying[i] = offset
				offset += 2
			}
			b.ReportAllocs()
			for b.Loop() {
				i := random.IntN(inFlight)
				w.Done(flying[i])
				flying[i] = offset
				w.Taken(offset)
				offset += 2
			}
		})
	}
}

// BenchmarkMetadata encodes and parses hole maps of 24,576 records.
func BenchmarkMetadata(b *testing.B) {
	for _, share := range []float64{0.001, 0.02, 0.1, 0.25, 0.5} {
		m := randomMap(7, 24_576, share)
		text, fits := m.Encode(0)
		if !fits {
			b.Fatal("does not fit")
		}
		b.Run(fmt.Sprintf("encode, %g open", share), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Encode(0)
			}
			b.ReportMetric(float64(len(text)), "characters")
		})
		b.Run(fmt.Sprintf("parse, %g open", share), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = retry.ParseMetadata(text, 0, -1)
			}
		})
	}
}

// randomMap has each record from 0 to width open at random with the same chance.
func randomMap(seed uint64, width int64, share float64) retry.Metadata {
	random := rand.New(rand.NewPCG(seed, 2))
	w := retry.NewWindow(0)
	w.Taken(0)
	for offset := int64(1); offset < width; offset++ {
		w.Taken(offset)
		if random.Float64() >= share {
			w.Done(offset)
		}
	}
	m := retry.NewMetadata(width)
	m.StreamTime = 1_700_000_000_000
	m.Running = true
	m.Holes = w.Holes(nil)
	return m
}

// BenchmarkWidest is how many records wide a map may be that has each record open or done at random, and still fit in a commit: of a hundred such
// maps, all have to.
func BenchmarkWidest(b *testing.B) {
	fits := func(width int64) bool {
		for seed := range uint64(100) {
			m := randomMap(seed, width, 0.5)
			if _, ok := m.Encode(0); !ok {
				return false
			}
		}
		return true
	}
	low, high := int64(1), int64(1<<16)
	for b.Loop() {
		for low, high = 1, 1<<16; high-low > 1; {
			if middle := (low + high) / 2; fits(middle) {
				low = middle
			} else {
				high = middle
			}
		}
	}
	b.ReportMetric(float64(low), "records-wide")
}
