package engine

import (
	"hash/fnv"
	"slices"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// tenure is the time during which one life of a task is the only one that may write to one of its changelogs. It has a producer id and an
// epoch of its own there, made of the generation in which the group granted the task: the id is the same for all owners of the task, the epoch
// is higher than that of any owner before. Brokers refuse a batch of an idempotent producer whose epoch is below the last one that the
// partition has seen (KIP-98), so that from the first batch of a tenure on nothing of an earlier one can be appended, however late it comes: no
// transaction is needed, no request, no byte. Before that first batch it can; see hole.
type tenure struct {
	writer
	end       int64 // of the log, as it was seen after the task had been granted
	fenced    bool  // the broker has seen a higher epoch
	confirmed int   // how often the lease has been extended since
	forsaken  bool  // it writes as an ordinary writer: see forsake
}

// writer is whom a broker takes the batches of a partition to be from.
type writer struct {
	pid   int64
	epoch int16
}

const (
	ownIDs         = int64(1) << 62 // above all ids that brokers give
	epochBits      = 14             // of a generation; the others are part of the id, so that one tenure in 16384 does not fence the one before
	generationBits = 31
	idBits         = 62 - (generationBits - epochBits)
)

// writerOf is the same function in every process. Two partitions never share an id: some brokers follow epochs by id alone.
func writerOf(tp task.TopicPartition, generation int32) writer {
	h := fnv.New64a()
	h.Write([]byte(tp.Topic))
	h.Write([]byte{0, byte(tp.Partition >> 24), byte(tp.Partition >> 16), byte(tp.Partition >> 8), byte(tp.Partition)})
	id := int64(h.Sum64() & (1<<idBits - 1))
	return writer{
		pid:   ownIDs | id<<(generationBits-epochBits) | int64(generation>>epochBits),
		epoch: int16(generation & (1<<epochBits - 1)),
	}
}

// confirmations is how many extensions of the lease make sure that a heartbeat was sent after a batch was refused, and answered: the first
// ones may answer what was sent before, on either connection of the member.
const confirmations = 3

// begin makes a task the only writer of a changelog partition.
func (s *Sender) begin(ev Tenure) {
	l := s.lane(ev.TopicPartition)
	by := writerOf(ev.TopicPartition, ev.Generation)
	if l.tenure != nil && l.tenure.writer == by { // another life of the same grant: its batches follow those before
		l.tenure.end = ev.End
		s.dropOrphan(l)
		return
	}
	l.tenure = &tenure{writer: by, end: ev.End}
	l.seq, l.tries = 0, 0
	s.dropOrphan(l)
}

// owned says that a lane has a writer of its own.
func (l *lane) owned() bool { return l.tenure != nil && !l.tenure.forsaken }

// writer is under whom a lane sends.
func (s *Sender) writer(l *lane) writer {
	if l.owned() {
		return l.tenure.writer
	}
	return writer{s.pid, s.epoch}
}

// orphaned says that nobody waits any more for the batch of a lane that has a tenure. A life that is over writes nothing more, as the task may be
// somebody else's. Lanes without a tenure do not care: their batches go on until their sequence is known to be used or free.
func (l *lane) orphaned() bool {
	return l.sent != nil && l.tenure != nil && !slices.ContainsFunc(l.sent.pieces, func(p piece) bool { return !p.owner.gone })
}

// dropOrphan drops the batch of a lane if nobody waits for it and it is not on the way.
func (s *Sender) dropOrphan(l *lane) {
	if l.orphaned() && !l.sent.onWay {
		s.giveUp(l)
	}
}

// answeredOrphan ends a batch that nobody waits for any more, and counts it if it was appended: the next life of the task in the same grant is the
// same writer.
func (s *Sender) answeredOrphan(l *lane, c kcode.Code) {
	switch c {
	case kcode.None, kcode.DuplicateSequence:
		l.done(s.writer(l))
	case kcode.InvalidProducerEpoch, kcode.ProducerFenced: // it is not appended any more
		l.drop()
	default:
		s.giveUp(l)
	}
}

// giveUp drops the batch of a lane, and lets others have its sequence.
func (s *Sender) giveUp(l *lane) {
	s.leaveSequence(l)
	l.drop()
}

// leaveSequence lets other records have the sequence of the batch of a lane. Its writer may go on: were the sequence used then, the broker would take
// the next batch for this one, acknowledge it, and not append it. So where nobody knows, another writer goes on. To send the batch again, to know,
// would write for certain what a life has made that was not committed.
func (s *Sender) leaveSequence(l *lane) {
	switch b := l.sent; {
	case !b.doubt || b.by != s.writer(l):
	case l.owned():
		s.forsake(l)
	default:
		s.newProducerID()
	}
}

// answeredOwned decides what an answer to a batch of a tenure means. It reports false if it means what it means everywhere.
func (s *Sender) answeredOwned(l *lane, p ProducedPart) bool {
	switch p.Code {
	case kcode.None:
		if p.BaseOffset >= l.tenure.end {
			l.tenure.fenced = false
			return false
		}
	case kcode.InvalidProducerEpoch, kcode.ProducerFenced:
		s.fenced(l)
		return true
	case kcode.DuplicateSequence, kcode.OutOfOrderSequence, kcode.UnknownProducerID, kcode.InvalidProducerIDMapping:
	default:
		return false
	}
	s.forsake(l) // the broker takes us for a writer that was here before, or has lost what it knew, or wants ids that it gave
	s.retry(l)
	return true
}

// fenced deals with a later tenure's writer in our partition. Usually it is not ours any more, and the group tells us so with the next
// heartbeat; then everything is dropped. But if the group goes on having us, then it counts its generations anew (it was deleted), and it
// is those of the group before that are higher.
func (s *Sender) fenced(l *lane) {
	t := l.tenure
	if !t.fenced {
		t.fenced, t.confirmed = true, 0
	}
	if s.lease.IsZero() || t.confirmed >= confirmations {
		s.forsake(l)
	}
	s.retry(l)
}

// leased takes a lease in. One that is extended says that the group has us.
func (s *Sender) leased(until Leased) {
	if until.Until.After(s.lease) {
		for _, l := range s.order {
			if l.tenure != nil && l.tenure.fenced {
				l.tenure.confirmed++
			}
		}
	}
	s.lease = until.Until
}

// forsake goes on as an ordinary writer, which fences nobody and which nobody fences.
func (s *Sender) forsake(l *lane) {
	l.tenure.forsaken, l.seq = true, 0
	if l.plain == (writer{s.pid, s.epoch}) { // else the lane has never used a sequence of it
		s.newProducerID()
	}
}
