package retry

import "encoding/base64"

// Origin names a record by where it was first read.
type Origin struct {
	Topic string
	// ID is the topic's: a topic that is deleted and made anew under its name has other records at the same offsets.
	ID        TopicID
	Partition int32
	Offset    int64
}

// TopicID tells a topic from another one of the same name, before or after it. Zero is unknown: brokers before Kafka 2.8 give none.
type TopicID [16]byte

// String is the id as Kafka's tools write it; empty where it is unknown.
func (id TopicID) String() string {
	if id == (TopicID{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// Other says that two ids are of two topics. Of an id that is unknown nothing can be said.
func (id TopicID) Other(than TopicID) bool {
	return id != than && id != (TopicID{}) && than != (TopicID{})
}

// Header is a record header. A nil Value is a null header value, an empty one is present and empty.
type Header struct {
	Key   string
	Value []byte
}
