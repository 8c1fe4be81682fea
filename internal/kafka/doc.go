// Package kafka is the edge to Kafka and the only importer of sarama.
//
// It has three planes. The control plane (metadata, admin, offsets of partitions, producer ids) shares one connection per broker. The group
// plane gives out private connections, because a parked JoinGroup would hold up everything else on its connection. The data plane has one
// connection per broker for Fetch and one for Produce; sarama dials and authenticates them, then this package takes the connection over and
// frames requests and record batches itself, so that a record costs no allocation.
//
// Nothing here decides or retries: each call is one attempt (Metadata tries each known broker once). Codes of the protocol come back in the
// answers as kcode.Code, failures of the transport as errors that name the broker and the request. After a transport error a connection is
// dead; dial another. Nothing here logs or prints a password.
package kafka
