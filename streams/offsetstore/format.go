package offsetstore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/understudy-streams/understudy/streams"
)

// A file is a head of one line and a line for each partition, sorted, so that it can be read with any tool:
//
//	understudy offsets 1, crc32c 0f3e5a11, 57 bytes
//	"settlement" "payments" 0 offset 1207 generation 12
//
// The checksum and the length are of what follows the head. Names are quoted as in Go, so that any bytes survive.
const (
	magic   = "understudy offsets "
	version = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(t table) []byte {
	var body bytes.Buffer
	for _, group := range slices.Sorted(maps.Keys(t)) {
		rows := t[group]
		for _, tp := range slices.SortedFunc(maps.Keys(rows), streams.TopicPartition.Compare) {
			fmt.Fprintf(&body, "%q %q %d offset %d generation %d\n", group, tp.Topic, tp.Partition, rows[tp].offset, rows[tp].generation)
		}
	}
	return append([]byte(head(body.Bytes())), body.Bytes()...)
}

func head(body []byte) string {
	return fmt.Sprintf("%s%d, crc32c %08x, %d bytes\n", magic, version, crc32.Checksum(body, castagnoli), len(body))
}

// decode is strict: whatever encode does not write is refused, with the reason.
func decode(text []byte) (table, error) {
	first, body, _ := bytes.Cut(text, []byte("\n"))
	if err := checkHead(string(first), body); err != nil {
		return nil, err
	}
	out := table{}
	for line := range bytes.Lines(body) {
		group, tp, r, err := parse(string(line))
		if err != nil {
			return nil, fmt.Errorf("the line %q: %w", bytes.TrimSpace(line), err)
		}
		if out[group] == nil {
			out[group] = map[streams.TopicPartition]row{}
		}
		out[group][tp] = r
	}
	if !bytes.Equal(encode(out), text) {
		return nil, errors.New("its lines are not as they are written")
	}
	return out, nil
}

func checkHead(first string, body []byte) error {
	rest, ok := strings.CutPrefix(first, magic)
	if !ok {
		return fmt.Errorf("it does not begin with %q", magic)
	}
	number, _, _ := strings.Cut(rest, ",")
	if v, err := strconv.Atoi(number); err == nil && v > version {
		return fmt.Errorf("it is of version %d, and this program knows those up to %d: it was written by a newer program", v, version)
	}
	if first+"\n" != head(body) {
		return fmt.Errorf("its checksum or length is wrong: %q where what follows has %q", first, strings.TrimSpace(head(body)))
	}
	return nil
}

func parse(line string) (group string, tp streams.TopicPartition, r row, err error) {
	if group, line, err = unquote(line); err != nil {
		return group, tp, r, err
	}
	if tp.Topic, line, err = unquote(line); err != nil {
		return group, tp, r, err
	}
	_, err = fmt.Sscanf(line, "%d offset %d generation %d\n", &tp.Partition, &r.offset, &r.generation)
	return group, tp, r, err
}

// unquote takes a quoted name and the blank behind it off a line.
func unquote(line string) (name, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return "", "", err
	}
	name, err = strconv.Unquote(quoted)
	return name, strings.TrimPrefix(line[len(quoted):], " "), err
}
