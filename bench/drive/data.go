package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

const (
	keys         = 100_000
	valueBytes   = 100
	vocabulary   = 20_000
	wordsPerLine = 8
)

// workload is one piece of work: its input, and what the output has to be (verify.go).
type workload struct {
	name    string
	topic   string // the input
	records int
}

func newWorkload(name string, s sizes) (workload, error) {
	switch name {
	case "map":
		return workload{name, "in", s.mapped}, nil
	case "count":
		return workload{name, "in", s.counted}, nil
	case "wordcount":
		return workload{name, "lines", s.lines}, nil
	}
	return workload{}, fmt.Errorf("no workload %q; there are map, count and wordcount", name)
}

// input yields the workload's records, the same ones each time. Keys and values must not be changed.
func (w workload) input() iter.Seq2[[]byte, []byte] {
	if w.topic == "lines" {
		return lines(w.records)
	}
	return pairs(w.records)
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(2027, 1)) }

// pairs yields n records whose keys are drawn evenly and whose values are windows into a buffer of random letters.
func pairs(n int) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		r := seeded()
		letters := randomLetters(r, 1<<16)
		for range n {
			at := r.IntN(len(letters) - valueBytes)
			if !yield(fmt.Appendf(nil, "k%07d", r.IntN(keys)), letters[at:at+valueBytes]) {
				return
			}
		}
	}
}

// lines yields n lines of words without keys. Few words are frequent and many are rare, as in a text.
func lines(n int) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		r := seeded()
		words := randomWords(r)
		zipf := rand.NewZipf(r, 1.1, 5, vocabulary-1)
		for range n {
			var line []byte
			for i := range wordsPerLine {
				if i > 0 {
					line = append(line, ' ')
				}
				line = append(line, words[zipf.Uint64()]...)
			}
			if !yield(nil, line) {
				return
			}
		}
	}
}

func randomLetters(r *rand.Rand, n int) []byte {
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = 'a' + byte(r.IntN(26))
	}
	return letters
}

// randomWords returns the vocabulary: 2 to 9 letters and a number that makes each word its own.
func randomWords(r *rand.Rand) []string {
	words := make([]string, vocabulary)
	for i := range words {
		words[i] = fmt.Sprintf("%s%d", randomLetters(r, 2+r.IntN(8)), i)
	}
	return words
}
