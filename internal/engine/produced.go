package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// ProduceError says that a broker refused records for good.
type ProduceError struct {
	To      task.TopicPartition
	Code    kcode.Code
	Message string
	Records int // in the refused batch
	Bytes   int

	record uint64 // the Print of the record that was refused; see one
	one    bool   // it is that record, and nothing else, which the broker does not take
}

func (e *ProduceError) Error() string {
	s := fmt.Sprintf("produce %d records (%d bytes) to %s: %v", e.Records, e.Bytes, e.To, e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	switch e.Code {
	case kcode.MessageTooLarge, kcode.RecordListTooLarge:
		s += "; raise max.message.bytes of the topic, or write smaller records"
	case kcode.UnknownTopicOrPartition:
		s += "; create the topic: sink topics are never created for you"
	case kcode.InvalidTimestamp:
		s += "; raise message.timestamp.after.max.ms of the topic, or correct the timestamps"
	case kcode.InvalidRecord:
		s += "; the topic, or what checks its records, does not take this one: correct what is written, or the topic's configuration"
	case kcode.PolicyViolation:
		s += "; a policy of the cluster forbids it: let whoever runs the cluster allow the application to write to the topic"
	case kcode.TopicAuthorizationFailed:
		s += "; the application's principal needs WRITE on the topic"
	}
	if e.one {
		s += "; to go on without such records, name a policy for them with retry.OnProduce"
	}
	return s
}

func (e *ProduceError) Unwrap() error { return e.Code }

func (s *Sender) produced(ev Produced) {
	req := s.requests[ev.Request]
	if req == nil {
		return // dropped meanwhile
	}
	delete(s.requests, ev.Request)
	s.inFlight[req.broker]--
	for _, l := range req.lanes {
		part := ProducedPart{TopicPartition: l.to, Code: kcode.NetworkException}
		if ev.Err == nil {
			if i := slices.IndexFunc(ev.Parts, func(p ProducedPart) bool { return p.TopicPartition == l.to }); i >= 0 {
				part = ev.Parts[i]
			}
		}
		l.sent.onWay = false
		l.sent.doubt = l.sent.doubt || inDoubt(part.Code)
		if l.orphaned() {
			s.answeredOrphan(l, part.Code)
		} else {
			s.answered(l, part)
		}
	}
}

// answered decides what an answer means for the batch on the way of a lane.
func (s *Sender) answered(l *lane, p ProducedPart) {
	if l.owned() && s.answeredOwned(l, p) {
		return
	}
	if ofRecord(p.Code) {
		s.narrow(l, p)
		return
	}
	switch p.Code {
	case kcode.None, kcode.DuplicateSequence:
		s.acked(l, p.BaseOffset)
	case kcode.OutOfOrderSequence, kcode.UnknownProducerID, kcode.InvalidProducerEpoch, kcode.ProducerFenced:
		s.newProducerID()
		s.retry(l)
	case kcode.UnknownTopicOrPartition, // whether it is missing, metadata says: a broker on its way up or down may just not know it
		kcode.NotLeaderOrFollower, kcode.LeaderNotAvailable, kcode.FencedLeaderEpoch, kcode.UnknownLeaderEpoch,
		kcode.NetworkException, kcode.KafkaStorageError, kcode.BrokerNotAvailable, kcode.ReplicaNotAvailable:
		l.leader = unknownLeader
		s.retry(l)
	case kcode.RequestTimedOut, kcode.NotEnoughReplicas, kcode.NotEnoughReplicasAppended, kcode.CoordinatorNotAvailable,
		kcode.CoordinatorLoadInProgress, kcode.ConcurrentTransactions, kcode.ThrottlingQuotaExceeded:
		s.retry(l)
	case kcode.Unknown, kcode.CorruptMessage: // something went wrong at the broker, or on the way there
		if l.tries < oddTries {
			s.retry(l)
		} else {
			s.refused(l, p)
		}
	default:
		s.refused(l, p)
	}
}

// inDoubt says that after such an answer a batch may have been appended, or may be later: the request may be on its way still, and a leader that
// ceases to be one may have appended it. Only what brokers check before they append says that it was not.
func inDoubt(c kcode.Code) bool {
	switch c {
	case kcode.None, kcode.DuplicateSequence,
		kcode.CorruptMessage, kcode.MessageTooLarge, kcode.RecordListTooLarge, kcode.InvalidTimestamp, kcode.InvalidRecord, kcode.PolicyViolation,
		kcode.InvalidTopic, kcode.TopicAuthorizationFailed, kcode.ClusterAuthorization, kcode.NotEnoughReplicas, kcode.InvalidRequiredAcks,
		kcode.OutOfOrderSequence, kcode.UnknownProducerID, kcode.InvalidProducerIDMapping, kcode.InvalidProducerEpoch, kcode.ProducerFenced,
		kcode.UnsupportedVersion, kcode.UnsupportedCompression, kcode.ThrottlingQuotaExceeded:
		return false
	}
	return true
}

// oddTries is how often a batch is sent again that the broker refuses without a reason that says for how long: for about 10 s.
const oddTries = 14

func (s *Sender) retry(l *lane) {
	wait := s.cfg.Backoff << min(l.tries, 5)
	l.tries++
	l.retryAt = s.now.Add(min(wait, time.Second))
}

func (s *Sender) acked(l *lane, base int64) {
	b := l.sent
	at := base
	for i := range b.pieces {
		p := &b.pieces[i]
		n := len(p.group.Refs)
		if !p.owner.gone {
			p.owner.offsets = append(p.owner.offsets, GroupOffset{TopicPartition: l.to, Base: at, Count: n})
			p.owner.ack(p.seq, 1)
			s.answer(p.owner)
		}
		at += int64(n)
	}
	l.done(s.writer(l))
}

// answer tells an owner how far its effects are acknowledged, if that is further than it knows.
func (s *Sender) answer(o *owner) {
	if o.gone || o.acked == o.told {
		return
	}
	o.told = o.acked
	s.do(EffectsAcked{Task: o.key.task, Epoch: o.key.epoch, Seq: o.acked, Offsets: o.offsets})
	o.offsets = nil
}

// ofRecord says that a refusal is about a record, and not about whoever writes it, or where.
func ofRecord(c kcode.Code) bool {
	return c == kcode.MessageTooLarge || c == kcode.RecordListTooLarge || c == kcode.InvalidTimestamp || c == kcode.InvalidRecord
}

// narrow sends a batch again in smaller ones that is too large, or has a record that the broker does not take. So it is one
// record that is refused, and nobody else's.
func (s *Sender) narrow(l *lane, p ProducedPart) {
	b := l.sent
	if b.records <= 1 {
		s.refused(l, p)
		return
	}
	half := max(b.bytes/2, 1)
	if slices.ContainsFunc(b.pieces, func(p piece) bool { return p.owner.gone }) {
		s.leaveSequence(l) // what comes next may have as many records; else it has fewer, and brokers tell the two apart by where they end
	}
	l.requeue()
	if len(l.queue) == 0 {
		return // nobody waits for it any more
	}
	l.take(half) // less than it was, or one record
}

// refused gives the owners of the batch up: what the broker will never take cannot be retried.
func (s *Sender) refused(l *lane, p ProducedPart) {
	b := l.sent
	for i := range b.pieces {
		if o := b.pieces[i].owner; !o.gone && !o.failed {
			o.failed = true
			err := &ProduceError{To: l.to, Code: p.Code, Message: p.Message, Records: b.records, Bytes: b.bytes}
			if err.one = b.records == 1 && ofRecord(p.Code); err.one {
				err.record = b.pieces[i].group.Print(0)
			}
			s.do(ProduceFailed{Task: o.key.task, Epoch: o.key.epoch, Err: err})
		}
	}
	// Nothing more may follow in order from these owners, nor what they hand over before they hear of it: an ack of that would count for what is
	// lost.
	s.giveUp(l)
	for i := range b.pieces {
		if o := b.pieces[i].owner; !o.gone {
			s.end(o.key)
		}
	}
}

func (s *Sender) leaders(ev LeadersKnown) {
	s.asked = false
	s.refreshAt = s.now.Add(min(s.cfg.Backoff<<min(s.refreshes, 5), time.Second))
	s.refreshes++
	if ev.Err != nil {
		return
	}
	for _, l := range s.order {
		if broker, ok := ev.Leaders[l.to]; ok {
			l.leader, l.missing = broker, time.Time{}
			continue
		}
		if l.leader == unknownLeader && (l.sent == nil || !l.sent.onWay) { // else its answer tells more
			s.stillMissing(l)
		}
	}
}

// stillMissing counts the time during which nobody knows the partition.
func (s *Sender) stillMissing(l *lane) {
	if l.missing.IsZero() {
		l.missing = s.now
	}
	if s.now.Sub(l.missing) < s.cfg.UnknownFor {
		return
	}
	if l.sent == nil {
		l.take(s.cfg.MaxBatch)
	}
	s.refused(l, ProducedPart{TopicPartition: l.to, Code: kcode.UnknownTopicOrPartition})
}

// ask asks for the leaders that are missing.
func (s *Sender) ask() {
	var topics []string
	for _, l := range s.order {
		if l.leader == unknownLeader && !slices.Contains(topics, l.to.Topic) {
			topics = append(topics, l.to.Topic)
		}
	}
	if len(topics) == 0 {
		s.refreshes = 0
	}
	if len(topics) == 0 || s.asked {
		return
	}
	if s.now.Before(s.refreshAt) {
		s.wakeAt(s.refreshAt)
		return
	}
	s.asked = true
	slices.Sort(topics)
	s.do(RefreshLeaders{Topics: topics})
}
