package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

const (
	valueBytes   = 100
	vocabulary   = 20_000
	wordsPerLine = 8
)

// input is what lies in an input topic. Two inputs that are equal lie in one topic.
type input struct {
	kind       string // pairs, lines or distinct
	records    int
	keys       int // of pairs: how many different ones
	partitions int32
	name       string // of the topic, where it is one run's own
}

// topic names the topic by what is in it, so that programs that are given less work have a topic of their own.
func (in input) topic() string {
	if in.name != "" {
		return in.name
	}
	return fmt.Sprintf("in-%s-%d-%d-%d", in.kind, in.records, in.keys, in.partitions)
}

// all yields the records, the same ones each time. Keys and values must not be changed.
func (in input) all() iter.Seq2[[]byte, []byte] {
	switch in.kind {
	case "lines":
		return lines(in.records)
	case "distinct":
		return distinct(in.records)
	default:
		return pairs(in.records, in.keys)
	}
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(2027, 1)) }

// pairs yields n records whose keys are drawn evenly and whose values are windows into a buffer of random letters.
func pairs(n, keys int) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		r := seeded()
		letters := randomLetters(r, 1<<16)
		for range n {
			at := r.IntN(len(letters) - valueBytes)
			if !yield(key(r.IntN(keys)), letters[at:at+valueBytes]) {
				return
			}
		}
	}
}

// distinct yields n records, each with a key of its own, in order of the keys.
func distinct(n int) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		r := seeded()
		letters := randomLetters(r, 1<<16)
		for i := range n {
			at := r.IntN(len(letters) - valueBytes)
			if !yield(key(i), letters[at:at+valueBytes]) {
				return
			}
		}
	}
}

// key is eight bytes: k and the number in seven digits.
func key(n int) []byte {
	k := [8]byte{'k'}
	for i := len(k) - 1; i > 0; i-- {
		k[i] = '0' + byte(n%10)
		n /= 10
	}
	return k[:]
}

// keyNumber is the number in such a key, or false.
func keyNumber(k []byte) (n int, ok bool) {
	if len(k) != 8 || k[0] != 'k' {
		return 0, false
	}
	for _, c := range k[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
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
