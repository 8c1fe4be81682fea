package main

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/understudy-streams/understudy/examples/internal/kit"
)

// tally holds the newest count of each word, as they come out of the application.
type tally struct {
	mu     sync.Mutex
	counts map[string]int64
	total  int64
}

func newTally() *tally { return &tally{counts: map[string]int64{}} }

// take takes one record of the counts topic.
func (t *tally) take(r kit.Record) {
	if len(r.Value) != 8 {
		return
	}
	n := int64(binary.BigEndian.Uint64(r.Value))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += n - t.counts[string(r.Key)]
	t.counts[string(r.Key)] = n
}

func (t *tally) sum() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

func (t *tally) top(n int) []wordCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return top(t.counts, n)
}

// wordCount is a word and how often it was seen.
type wordCount struct {
	word  string
	count int64
}

// top returns the n most frequent words, the most frequent first, words of one count in alphabetical order.
func top(counts map[string]int64, n int) []wordCount {
	all := make([]wordCount, 0, len(counts))
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, wordCount{w, counts[w]})
	}
	slices.SortStableFunc(all, func(a, b wordCount) int { return cmp.Compare(b.count, a.count) })
	return all[:min(n, len(all))]
}
