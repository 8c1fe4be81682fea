// Package kcode names the error codes of the Kafka protocol, so that the cores can decide on them without knowing a client library.
package kcode

import "fmt"

// Code is an error code of the Kafka protocol. It is an error unless it is None.
type Code int16

// The codes that the runtime decides on; others are carried by number.
const (
	Unknown                   Code = -1
	None                      Code = 0
	OffsetOutOfRange          Code = 1
	CorruptMessage            Code = 2
	UnknownTopicOrPartition   Code = 3
	InvalidFetchSize          Code = 4
	LeaderNotAvailable        Code = 5
	NotLeaderOrFollower       Code = 6
	RequestTimedOut           Code = 7
	BrokerNotAvailable        Code = 8
	ReplicaNotAvailable       Code = 9
	MessageTooLarge           Code = 10
	OffsetMetadataTooLarge    Code = 12
	NetworkException          Code = 13
	CoordinatorLoadInProgress Code = 14
	CoordinatorNotAvailable   Code = 15
	NotCoordinator            Code = 16
	InvalidTopic              Code = 17
	RecordListTooLarge        Code = 18
	NotEnoughReplicas         Code = 19
	NotEnoughReplicasAppended Code = 20
	InvalidRequiredAcks       Code = 21
	IllegalGeneration         Code = 22
	InconsistentGroupProtocol Code = 23
	InvalidGroupID            Code = 24
	UnknownMemberID           Code = 25
	InvalidSessionTimeout     Code = 26
	RebalanceInProgress       Code = 27
	TopicAuthorizationFailed  Code = 29
	GroupAuthorizationFailed  Code = 30
	ClusterAuthorization      Code = 31
	InvalidTimestamp          Code = 32
	UnsupportedVersion        Code = 35
	TopicAlreadyExists        Code = 36
	InvalidPartitions         Code = 37
	InvalidReplicationFactor  Code = 38
	InvalidConfig             Code = 40
	NotController             Code = 41
	InvalidRequest            Code = 42
	PolicyViolation           Code = 44
	OutOfOrderSequence        Code = 45
	DuplicateSequence         Code = 46
	InvalidProducerEpoch      Code = 47
	InvalidTxnState           Code = 48
	InvalidProducerIDMapping  Code = 49
	ConcurrentTransactions    Code = 51
	KafkaStorageError         Code = 56
	UnknownProducerID         Code = 59
	SaslAuthenticationFailed  Code = 58
	NonEmptyGroup             Code = 68
	GroupIDNotFound           Code = 69
	TopicDeletionDisabled     Code = 73
	FencedLeaderEpoch         Code = 74
	UnknownLeaderEpoch        Code = 75
	UnsupportedCompression    Code = 76
	OffsetNotAvailable        Code = 78
	MemberIDRequired          Code = 79
	GroupMaxSizeReached       Code = 81
	FencedInstanceID          Code = 82
	InvalidRecord             Code = 87
	GroupSubscribedToTopic    Code = 86
	UnstableOffsetCommit      Code = 88
	ThrottlingQuotaExceeded   Code = 89
	ProducerFenced            Code = 90
)

var names = map[Code]string{
	Unknown: "UNKNOWN_SERVER_ERROR", None: "NONE", OffsetOutOfRange: "OFFSET_OUT_OF_RANGE", CorruptMessage: "CORRUPT_MESSAGE",
	UnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION", LeaderNotAvailable: "LEADER_NOT_AVAILABLE", NotLeaderOrFollower: "NOT_LEADER_OR_FOLLOWER",
	RequestTimedOut: "REQUEST_TIMED_OUT", BrokerNotAvailable: "BROKER_NOT_AVAILABLE", ReplicaNotAvailable: "REPLICA_NOT_AVAILABLE",
	MessageTooLarge: "MESSAGE_TOO_LARGE", OffsetMetadataTooLarge: "OFFSET_METADATA_TOO_LARGE", NetworkException: "NETWORK_EXCEPTION",
	CoordinatorLoadInProgress: "COORDINATOR_LOAD_IN_PROGRESS", CoordinatorNotAvailable: "COORDINATOR_NOT_AVAILABLE", NotCoordinator: "NOT_COORDINATOR",
	InvalidTopic: "INVALID_TOPIC_EXCEPTION", RecordListTooLarge: "RECORD_LIST_TOO_LARGE", NotEnoughReplicas: "NOT_ENOUGH_REPLICAS",
	NotEnoughReplicasAppended: "NOT_ENOUGH_REPLICAS_AFTER_APPEND", IllegalGeneration: "ILLEGAL_GENERATION",
	InconsistentGroupProtocol: "INCONSISTENT_GROUP_PROTOCOL", UnknownMemberID: "UNKNOWN_MEMBER_ID", InvalidSessionTimeout: "INVALID_SESSION_TIMEOUT",
	RebalanceInProgress: "REBALANCE_IN_PROGRESS", TopicAuthorizationFailed: "TOPIC_AUTHORIZATION_FAILED", GroupAuthorizationFailed: "GROUP_AUTHORIZATION_FAILED",
	ClusterAuthorization: "CLUSTER_AUTHORIZATION_FAILED", InvalidTimestamp: "INVALID_TIMESTAMP", TopicAlreadyExists: "TOPIC_ALREADY_EXISTS",
	InvalidPartitions: "INVALID_PARTITIONS", InvalidReplicationFactor: "INVALID_REPLICATION_FACTOR", InvalidConfig: "INVALID_CONFIG",
	NotController: "NOT_CONTROLLER", PolicyViolation: "POLICY_VIOLATION", OutOfOrderSequence: "OUT_OF_ORDER_SEQUENCE_NUMBER",
	DuplicateSequence: "DUPLICATE_SEQUENCE_NUMBER", InvalidProducerEpoch: "INVALID_PRODUCER_EPOCH", InvalidTxnState: "INVALID_TXN_STATE",
	InvalidProducerIDMapping: "INVALID_PRODUCER_ID_MAPPING",
	ConcurrentTransactions:   "CONCURRENT_TRANSACTIONS", KafkaStorageError: "KAFKA_STORAGE_ERROR", UnknownProducerID: "UNKNOWN_PRODUCER_ID",
	SaslAuthenticationFailed: "SASL_AUTHENTICATION_FAILED", GroupIDNotFound: "GROUP_ID_NOT_FOUND", FencedLeaderEpoch: "FENCED_LEADER_EPOCH",
	UnknownLeaderEpoch: "UNKNOWN_LEADER_EPOCH", OffsetNotAvailable: "OFFSET_NOT_AVAILABLE", MemberIDRequired: "MEMBER_ID_REQUIRED",
	GroupMaxSizeReached: "GROUP_MAX_SIZE_REACHED", FencedInstanceID: "FENCED_INSTANCE_ID", InvalidRecord: "INVALID_RECORD",
	UnstableOffsetCommit: "UNSTABLE_OFFSET_COMMIT", ProducerFenced: "PRODUCER_FENCED",
	InvalidFetchSize: "INVALID_FETCH_SIZE", InvalidRequiredAcks: "INVALID_REQUIRED_ACKS", InvalidGroupID: "INVALID_GROUP_ID",
	UnsupportedVersion: "UNSUPPORTED_VERSION", InvalidRequest: "INVALID_REQUEST", UnsupportedCompression: "UNSUPPORTED_COMPRESSION_TYPE",
	ThrottlingQuotaExceeded: "THROTTLING_QUOTA_EXCEEDED", NonEmptyGroup: "NON_EMPTY_GROUP", TopicDeletionDisabled: "TOPIC_DELETION_DISABLED",
	GroupSubscribedToTopic: "GROUP_SUBSCRIBED_TO_TOPIC",
}

func (c Code) Error() string {
	if s, ok := names[c]; ok {
		return fmt.Sprintf("%s (%d)", s, int16(c))
	}
	return fmt.Sprintf("kafka error code %d", int16(c))
}

// Err returns the code as an error, nil for None.
func (c Code) Err() error {
	if c == None {
		return nil
	}
	return c
}
