package outside

import (
	"strings"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/retry"
)

// Kind says whose group it is.
type Kind string

// The kinds. What is none of them is named by its protocol type.
const (
	Understudy Kind = "understudy"
	// Streams is an application, of this runtime or of Kafka Streams: what both commit at a clean end is the same, and nobody is there to tell.
	Streams      Kind = "streams"
	KafkaStreams Kind = "kafka-streams"
	Consumer     Kind = "consumer"
)

// BoardPrefix begins the metadata of the readiness board: positions of learners in changelogs, which are no offsets of an input.
const BoardPrefix = "learned/"

// Application says whether groups of this kind have internal topics and state.
func (k Kind) Application() bool { return k == Understudy || k == Streams || k == KafkaStreams }

// KindOf tells the kind of a group by the protocol of its members, or, where there are none, by what was committed last.
func KindOf(protocolType, protocol string, committed []kafka.FetchedOffset) Kind {
	switch {
	case protocolType == "streams", protocol == "stream":
		return KafkaStreams
	case protocolType != "" && protocolType != "consumer":
		return Kind(protocolType)
	case protocol == group.Protocol:
		return Understudy
	case protocol != "":
		return Consumer
	}
	kind := Consumer
	for _, c := range committed {
		switch {
		case c.Metadata == "":
		case retry.Ours(c.Metadata) || strings.HasPrefix(c.Metadata, BoardPrefix):
			return Understudy
		default:
			if _, err := retry.ParseMetadata(c.Metadata, max(0, c.Offset), -1); err == nil {
				kind = Streams
			}
		}
	}
	return kind
}
