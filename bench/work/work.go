// Package work is what the values of the failure benchmark tell a program to do, and how a program notes that it has done so.
package work

import (
	"errors"
	"fmt"
	"strconv"
)

// The kinds of records.
const (
	Good  = 'g' // nothing happens; the number is when it was sent, in nanoseconds since the epoch
	Fails = 'f' // the call fails, each time; the number is the same
	Later = 'd' // the call fails once and asks to be made again after so many milliseconds
	Sleep = 's' // the call takes so many microseconds
)

// Value is what a record's value says.
type Value struct {
	Kind   byte
	Seq    int // counts the records of a topic
	Number int64
}

const (
	seqDigits, numberDigits = 10, 19
	head                    = 1 + seqDigits + 1 + numberDigits
	size                    = 100 // bytes of a value
)

// Append appends the value, in 100 bytes of text: its kind, ten digits of Seq, a space, nineteen digits of Number, and dots.
func (v Value) Append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%c%0*d %0*d", v.Kind, seqDigits, v.Seq, numberDigits, v.Number)
	for range size - head {
		dst = append(dst, '.')
	}
	return dst
}

var errValue = errors.New("not a value of the failure benchmark")

// Parse reads a value.
func Parse(text []byte) (v Value, err error) {
	if len(text) != size {
		return v, errValue
	}
	seq, err1 := strconv.Atoi(string(text[1 : 1+seqDigits]))
	number, err2 := strconv.ParseInt(string(text[1+seqDigits+1:head]), 10, 64)
	if err1 != nil || err2 != nil || seq < 0 {
		return v, errValue
	}
	return Value{text[0], seq, number}, nil
}
