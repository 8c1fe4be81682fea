package retry

import (
	"slices"
	"strconv"
	"strings"
)

// The headers of a dead letter. The first six are those of Kafka Streams (KIP-1034), which writes them all as text; so do we.
const (
	HeaderException = "__streams.errors.exception" // the error's type
	HeaderMessage   = "__streams.errors.message"
	HeaderStack     = "__streams.errors.stacktrace"
	HeaderTopic     = "__streams.errors.topic" // where the record was read
	HeaderPartition = "__streams.errors.partition"
	HeaderOffset    = "__streams.errors.offset"

	HeaderAttempts = "__understudy.errors.attempts" // tries that have failed
	HeaderFirst    = "__understudy.errors.first"    // the first failure, in milliseconds
	HeaderClass    = "__understudy.errors.class"
	HeaderNode     = "__understudy.errors.node"
	HeaderTask     = "__understudy.errors.task"
	HeaderRedriven = "__understudy.errors.redriven" // how often the record has come back from the dead letters
	HeaderRoot     = "__understudy.errors.root"     // topic/partition/offset of the record from which this one was made
	HeaderRow      = "__understudy.errors.row"      // of a row that belongs to no record: its store, or for a punctuation its processor
)

// Classes of dead letters that hold no record as it was read, so that none comes back as one.
const (
	ClassRow      = "row"      // a row that belongs to no record: its key and value are those of the store
	ClassEnvelope = "envelope" // what was put aside and cannot be read any more: what there is of it
)

// Letter is what a dead letter says of its record, in its headers. Its key, value and timestamp are the record's own, as they were read, and
// so are the headers ahead of these.
type Letter struct {
	Origin           // where the record was read
	Exception string // the type of its last error
	Message   string
	Stack     string // of a panic
	Attempts  int    // tries that have failed
	First     int64  // milliseconds: the first failure
	Class     string // what dead letters are sorted by
	Node      string
	Task      string
	Redriven  int    // how often it has come back from the dead letters
	Root      Origin // of the record from which this one was made, in another subtopology; the zero Origin if it was made from none
	// Row is set for a row that belongs to no record: the name of its store, or for a punctuation that of its processor. There is no Origin then:
	// the topic is empty, partition and offset are -1.
	Row string
}

// Returns says whether the letter holds a record, which can come back with Redrive.
func (l *Letter) Returns() bool {
	return l.Row == "" && l.Class != ClassRow && l.Class != ClassEnvelope
}

const (
	maxCount = 1 << 20         // of attempts and redrives that anybody can mean
	maxTime  = 253402300799999 // the last millisecond of the year 9999
)

// AppendHeaders appends the headers of a dead letter: the original ones, as they are, and then the letter's. Message and Stack are cut to
// [MaxText] bytes together, and the other texts to shorter ones, so that they never take more than 8 KiB. They hold no bytes of the letter.
func (l *Letter) AppendHeaders(dst, original []Header) []Header {
	message := cut(l.Message, MaxText)
	add := func(name, value string) { dst = append(dst, Header{Key: name, Value: []byte(value)}) }
	addLonger := func(name, value string, most int) {
		// Where the record has such a header of its own, an empty one behind it says that it is not the letter's.
		if value != "" || slices.ContainsFunc(original, func(h Header) bool { return h.Key == name }) {
			add(name, cut(value, most))
		}
	}
	addNamed := func(name, value string) { addLonger(name, value, maxName) }
	dst = append(dst, original...)
	add(HeaderException, cut(l.Exception, maxName))
	add(HeaderMessage, message)
	add(HeaderStack, cut(l.Stack, MaxText-len(message)))
	add(HeaderTopic, l.Topic)
	add(HeaderPartition, strconv.FormatInt(int64(l.Partition), 10))
	add(HeaderOffset, strconv.FormatInt(l.Offset, 10))
	add(HeaderAttempts, strconv.Itoa(l.Attempts))
	add(HeaderFirst, strconv.FormatInt(l.First, 10))
	add(HeaderRedriven, strconv.Itoa(l.Redriven))
	addNamed(HeaderClass, l.Class)
	addNamed(HeaderNode, l.Node)
	addNamed(HeaderTask, l.Task)
	root := ""
	if l.Root != (Origin{}) {
		root = appendRoot(l.Root)
	}
	addLonger(HeaderRoot, root, 2*maxName)
	addNamed(HeaderRow, l.Row)
	return dst
}

func appendRoot(o Origin) string {
	return o.Topic + "/" + strconv.FormatInt(int64(o.Partition), 10) + "/" + strconv.FormatInt(o.Offset, 10)
}

// ParseLetter reads the headers of a dead letter, and returns the original ones. Without a sound topic, partition and offset it is none, unless
// it is that of a row: ok is false then, and all headers are original.
//
// Anybody can write to a dead-letter topic, and nothing that a header says is believed: numbers are cut to what makes sense, texts to the
// lengths that AppendHeaders keeps, and a root that is none is left out. A count of redrives that is no number counts as [MaxRedrives]. First
// may lie in the future. Where a name is there more than once, the last one is the letter's and the others are original: a record that had
// such headers of its own keeps them. The values of original are borrowed.
func ParseLetter(headers []Header) (l Letter, original []Header, ok bool) {
	at := find(headers)
	text := func(f field, most int) string {
		if at[f] < 0 {
			return ""
		}
		v := headers[at[f]].Value
		return cut(string(v[:min(len(v), most+utf8Slack)]), most)
	}
	count := func(f field, most int64) (int64, bool) { return digits(text(f, maxName), most) }

	partition, partitionOK := count(fieldPartition, 1<<31-1)
	offset, offsetOK := count(fieldOffset, 1<<63-1)
	l.Origin = Origin{Topic: text(fieldTopic, maxName), Partition: int32(partition), Offset: offset}
	l.Row = text(fieldRow, maxName)
	switch sound := topicFault(l.Topic) == "" && partitionOK && offsetOK; {
	case l.Row != "":
		l.Origin = noOrigin
	case !sound:
		return Letter{}, headers, false
	}
	l.Exception = text(fieldException, maxName)
	l.Message = text(fieldMessage, MaxText)
	l.Stack = text(fieldStack, MaxText-len(l.Message))
	l.Class, l.Node, l.Task = text(fieldClass, maxName), text(fieldNode, maxName), text(fieldTask, maxName)
	attempts, _ := count(fieldAttempts, maxCount)
	l.Attempts = int(attempts)
	l.First, _ = count(fieldFirst, maxTime)
	l.Redriven = redriven(text(fieldRedriven, maxName), at[fieldRedriven] >= 0)
	l.Root = parseRoot(text(fieldRoot, 2*maxName))
	return l, without(headers, &at), true
}

// noOrigin is that of a row.
var noOrigin = Origin{Partition: -1, Offset: -1}

// utf8Slack is how many bytes past its end are looked at for where the last whole character of a text ends.
const utf8Slack = 1

// digits reads a number from 0 to most: a larger one is cut to that. What is anything but digits is none.
func digits(s string, most int64) (n int64, ok bool) {
	for _, c := range []byte(s) {
		switch d := int64(c) - '0'; {
		case d < 0 || d > 9:
			return 0, false
		case n > (most-d)/10:
			n = most
		default:
			n = 10*n + d
		}
	}
	return n, s != ""
}

func redriven(s string, present bool) int {
	n, ok := digits(s, maxCount)
	if present && !ok {
		return MaxRedrives
	}
	return int(n)
}

func parseRoot(s string) Origin {
	topic, rest, _ := strings.Cut(s, "/")
	p, o, _ := strings.Cut(rest, "/")
	partition, partitionOK := digits(p, 1<<31-1)
	offset, offsetOK := digits(o, 1<<63-1)
	if topicFault(topic) != "" || !partitionOK || !offsetOK {
		return Origin{}
	}
	return Origin{Topic: topic, Partition: int32(partition), Offset: offset}
}
