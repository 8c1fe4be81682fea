// Package broker is the embedded broker behind examples and tests: kfake, with its known differences from Kafka smoothed where that is
// possible, and a small client (franz-go) to put records in and look at what came out.
//
// It speaks Kafka's protocol on loopback, so everything above the socket is the real thing; but it is no Kafka. It has a single copy of each
// partition, writes transaction markers at once, knows none of the size limits, and does not suspend the session timer of a member that waits
// in JoinGroup. What depends on those is tested against real brokers (package realkafka).
package broker
