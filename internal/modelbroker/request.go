package modelbroker

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Request is one of the XxxRequest structs of this package, by value.
type Request interface{ request() }

// Response is the XxxResponse struct that belongs to a request, by value.
type Response interface{ response() }

// MetadataRequest asks for topics; nil Topics means all.
type MetadataRequest struct{ Topics []string }

// MetadataResponse names the nodes that are up and the topics asked for, in order of the request or sorted by name.
type MetadataResponse struct {
	Brokers    []int32
	Controller int32
	Topics     []TopicMetadata
}

// TopicMetadata describes one topic.
type TopicMetadata struct {
	Name       string
	ID         [16]byte
	Code       kcode.Code
	Partitions []PartitionMetadata
}

// PartitionMetadata names the leader of a partition; -1 with LEADER_NOT_AVAILABLE if it has none.
type PartitionMetadata struct {
	Leader, LeaderEpoch int32
	Code                kcode.Code
}

// NewTopic is a topic to create.
type NewTopic struct {
	Name string
	TopicConfig
}

// CreateTopicsRequest creates topics, each on its own account.
type CreateTopicsRequest struct{ Topics []NewTopic }

// CreateTopicsResponse has a code per topic of the request, in its order.
type CreateTopicsResponse struct{ Codes []kcode.Code }

// DeleteTopicsRequest deletes topics with their data and the groups' offsets for them.
type DeleteTopicsRequest struct{ Topics []string }

// DeleteTopicsResponse has a code per topic of the request, in its order.
type DeleteTopicsResponse struct{ Codes []kcode.Code }

// TopicConfigsRequest asks for the configs of topics.
type TopicConfigsRequest struct{ Topics []string }

// TopicConfigsResponse has the configs of each topic of the request, in its order: those that were set, and the defaults of those that the
// model knows a default of. Nil where the code is not NONE.
type TopicConfigsResponse struct {
	Configs []map[string]string
	Codes   []kcode.Code
}

// At says which offset ListOffsets wants.
type At int

// The offsets that can be listed: the start of the log, its high watermark, its last stable offset.
const (
	Earliest At = iota
	Latest
	LastStable
)

// ListOffsetsRequest asks the leader for offsets.
type ListOffsetsRequest struct{ Parts []ListOffsetsPart }

// ListOffsetsPart asks for one partition. LeaderEpoch -1 asks for no check.
type ListOffsetsPart struct {
	task.TopicPartition
	At          At
	LeaderEpoch int32
}

// ListOffsetsResponse has one entry per entry of the request.
type ListOffsetsResponse struct{ Parts []ListedOffset }

// ListedOffset is -1 where Code is not NONE.
type ListedOffset struct {
	task.TopicPartition
	Code        kcode.Code
	Offset      int64
	LeaderEpoch int32
}

// DeleteRecordsRequest deletes what lies below Before; -1 is the high watermark.
type DeleteRecordsRequest struct{ Parts []DeleteRecordsPart }

// DeleteRecordsPart is one partition of a DeleteRecordsRequest.
type DeleteRecordsPart struct {
	task.TopicPartition
	Before int64
}

// DeleteRecordsResponse has one entry per entry of the request.
type DeleteRecordsResponse struct{ Parts []DeletedRecords }

// DeletedRecords says where the log starts now, -1 where Code is not NONE.
type DeletedRecords struct {
	task.TopicPartition
	Code         kcode.Code
	LowWatermark int64
}

// InitProducerIDRequest asks for the id of an idempotent producer.
type InitProducerIDRequest struct{}

// InitProducerIDResponse is a producer id never given before, with epoch 0.
type InitProducerIDResponse struct {
	Code       kcode.Code
	ProducerID int64
	Epoch      int16
}

// ProduceRequest appends batches with acks of all replicas. The bytes of the records are copied when the request is served.
type ProduceRequest struct{ Batches []ProduceBatch }

// ProduceBatch is a batch for one partition. ProducerID -1 is a producer that is not idempotent.
type ProduceBatch struct {
	task.TopicPartition
	ProducerID    int64
	Epoch         int16
	FirstSequence int32
	Records       []task.OutRecord
}

// ProduceResponse has one entry per batch of the request.
type ProduceResponse struct{ Parts []ProducedPart }

// ProducedPart says where a batch went. BadRecords has the indices of the records that made the whole batch fail, where the code is
// INVALID_RECORD or INVALID_TIMESTAMP.
type ProducedPart struct {
	task.TopicPartition
	Code       kcode.Code
	BaseOffset int64 // -1 where Code is not NONE
	BadRecords []int
}

// FetchRequest reads partitions. It is parked until MinBytes are there or MaxWait is over; a partition with an error ends that at once.
type FetchRequest struct {
	MaxWait       time.Duration
	MinBytes      int32
	MaxBytes      int32 // of the whole answer; 0 is no bound
	ReadCommitted bool
	Parts         []FetchPart
}

// FetchPart asks for one partition from Offset on. LeaderEpoch -1 asks for no check.
type FetchPart struct {
	task.TopicPartition
	Offset      int64
	LeaderEpoch int32
	MaxBytes    int32 // 0 is no bound
}

// FetchResponse has one entry per entry of the request.
type FetchResponse struct{ Parts []FetchedPart }

// FetchedPart is what a broker sends: whole batches, so that Records may begin below the offset asked for. Next is the offset after the last
// batch, which may have no record; it is the offset asked for where there was no batch. The watermarks are -1 beside a code other than NONE.
type FetchedPart struct {
	task.TopicPartition
	Code                                kcode.Code
	Records                             []task.Record
	Next                                int64
	HighWatermark, LastStable, LogStart int64
	Bytes                               int // of the batches on the wire
}

// Batch is what a client makes of the part: the records from offset from on. Nil where nothing moves the position.
func (p FetchedPart) Batch(from int64) *task.Batch {
	if p.Code != kcode.None || p.Next <= from {
		return nil
	}
	records := p.Records
	for len(records) > 0 && records[0].Offset < from {
		records = records[1:]
	}
	return &task.Batch{Records: records, Next: p.Next, Bytes: p.Bytes, HighWatermark: p.HighWatermark}
}

func (MetadataRequest) request()        {}
func (CreateTopicsRequest) request()    {}
func (DeleteTopicsRequest) request()    {}
func (TopicConfigsRequest) request()    {}
func (ListOffsetsRequest) request()     {}
func (DeleteRecordsRequest) request()   {}
func (InitProducerIDRequest) request()  {}
func (ProduceRequest) request()         {}
func (FetchRequest) request()           {}
func (MetadataResponse) response()      {}
func (CreateTopicsResponse) response()  {}
func (DeleteTopicsResponse) response()  {}
func (TopicConfigsResponse) response()  {}
func (ListOffsetsResponse) response()   {}
func (DeleteRecordsResponse) response() {}
func (InitProducerIDResponse) response() {
}
func (ProduceResponse) response() {}
func (FetchResponse) response()   {}
