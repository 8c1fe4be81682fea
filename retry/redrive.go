package retry

import (
	"errors"
	"slices"
	"strconv"
)

// MaxRedrives is how often a record may come back from the dead letters.
const MaxRedrives = 5

var (
	// ErrNoLetter is the error of a record that is no dead letter.
	ErrNoLetter = errors.New("retry: not a dead letter")
	// ErrNoRecord is the error of a dead letter that holds no record: a row, or what is left of one that could not be read.
	ErrNoRecord = errors.New("retry: the dead letter holds no record")
	// ErrRedriven is the error of a dead letter that has come back [MaxRedrives] times.
	ErrRedriven = errors.New("retry: redriven too often")
)

// Redrive returns the headers with which a dead letter goes into a redrive topic: its own, with the count of redrives one higher. Key, value
// and timestamp stay as they are. The error is [ErrNoLetter], [ErrNoRecord] or [ErrRedriven]. The values of the other headers are borrowed.
func Redrive(letter []Header) ([]Header, error) {
	l, _, ok := ParseLetter(letter)
	switch {
	case !ok:
		return nil, ErrNoLetter
	case !l.Returns():
		return nil, ErrNoRecord
	case l.Redriven >= MaxRedrives:
		return nil, ErrRedriven
	}
	count := Header{Key: HeaderRedriven, Value: strconv.AppendInt(nil, int64(l.Redriven)+1, 10)}
	redriven := slices.Clone(letter)
	if i := find(letter)[fieldRedriven]; i != none {
		redriven[i] = count
		return redriven, nil
	}
	return append(redriven, count), nil
}
