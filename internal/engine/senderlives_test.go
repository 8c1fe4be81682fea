package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// idempotentLog is a partition of a broker that knows idempotent producers as Kafka does: the last five batches of each, and its epoch.
type idempotentLog struct {
	records   []made
	producers map[int64]*producer
}

// made is a record by the life of the task that made it and the sequence of its effects.
type made struct{ life, seq uint64 }

type producer struct {
	epoch   int16
	batches []appended
}

type appended struct {
	first, next int32
	base        int64
}

func (l *idempotentLog) produce(b ProduceBatch) (kcode.Code, int64) {
	var records []made
	for _, g := range b.Groups {
		for _, r := range g.Records() {
			records = append(records, made{uint64(r.Value[0]), uint64(r.Value[1])})
		}
	}
	p, next := l.producers[b.ProducerID], nextSequence(b.FirstSequence, len(records))
	switch {
	case p == nil:
		p = &producer{epoch: b.Epoch}
		l.producers[b.ProducerID] = p
	case b.Epoch < p.epoch:
		return kcode.InvalidProducerEpoch, -1
	case b.Epoch > p.epoch:
		if b.FirstSequence != 0 {
			return kcode.OutOfOrderSequence, -1
		}
		*p = producer{epoch: b.Epoch}
	default:
		if i := slices.IndexFunc(p.batches, func(a appended) bool { return a.first == b.FirstSequence && a.next == next }); i >= 0 {
			return kcode.None, p.batches[i].base
		}
		if last := p.batches[len(p.batches)-1]; last.next != b.FirstSequence {
			return kcode.OutOfOrderSequence, -1
		}
	}
	base := int64(len(l.records))
	l.records = append(l.records, records...)
	p.batches = append(p.batches, appended{b.FirstSequence, next, base})
	p.batches = p.batches[max(len(p.batches)-5, 0):]
	return kcode.None, base
}

// copied is a request as it lies in the network, when the sender has gone on.
func copied(p Produce) Produce {
	p.Batches = slices.Clone(p.Batches)
	for i := range p.Batches {
		groups := p.Batches[i].Groups
		p.Batches[i].Groups = nil
		for _, g := range groups {
			clone := *g
			clone.Refs = slices.Clone(g.Refs)
			p.Batches[i].Groups = append(p.Batches[i].Groups, &clone)
		}
	}
	return p
}

// A task begins anew, in the same grant or in a later one, at any moment; answers are lost, requests come late, records are refused. What is
// acknowledged is in the logs: it is not taken for what another life has written.
func TestSenderAcksWhatIsThereInEachLife(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newSenderBench(t, SenderConfig{Linger: time.Nanosecond, MaxBatch: rapid.IntRange(60, 600).Draw(rt, "max")})
		leaders := map[task.TopicPartition]int32{log0: 1, out0: 1}
		logs := map[task.TopicPartition]*idempotentLog{}
		for tp := range leaders {
			logs[tp] = &idempotentLog{producers: map[int64]*producer{}}
		}
		b.ready(leaders)
		life, seq, generation := uint64(0), uint64(0), int32(1)
		grants, unfenced := map[uint64]int32{}, false
		begin := func() {
			life, seq = life+1, 0
			grants[life] = generation
			b.step(Tenure{TopicPartition: log0, Generation: generation, End: int64(len(logs[log0].records))})
		}
		begin()
		var late []Produce // their connection was cut, and the broker may read them all the same
		taken, told, pid := 0, 0, int64(7)
		count := map[made]int{} // of records made, in each partition
		receive := func(p Produce) (parts []ProducedPart) {
			for _, batch := range p.Batches {
				part := ProducedPart{TopicPartition: batch.TopicPartition}
				part.Code, part.BaseOffset = logs[batch.TopicPartition].produce(batch)
				parts = append(parts, part)
			}
			return parts
		}
		check := func() {
			for ; told < len(b.acks); told++ {
				a := b.acks[told]
				for tp, log := range logs {
					have := map[made]int{}
					for _, r := range log.records {
						have[r]++
					}
					for s := uint64(1); s <= a.Seq; s++ {
						require.GreaterOrEqual(rt, have[made{a.Epoch, s}], count[made{a.Epoch, s}], "life %d, effects %d: acknowledged and not in %v", a.Epoch, s, tp)
					}
				}
			}
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			switch rapid.IntRange(0, 7).Draw(rt, "step") {
			case 0, 1:
				seq++
				n := rapid.IntRange(1, 3).Draw(rt, "n")
				count[made{life, seq}] = n
				e := effects(id00, life, seq, n, 20, log0, out0)
				for i := range e.Groups {
					for _, r := range e.Groups[i].Records() {
						r.Value[0], r.Value[1] = byte(life), byte(seq)
					}
				}
				b.step(EffectsMade{e})
			case 2:
				b.step(ForgetTask{Task: id00, Epoch: life})
				if rapid.Bool().Draw(rt, "later") {
					generation++
				}
				begin()
			case 3:
				b.after(time.Duration(rapid.IntRange(1, 2000).Draw(rt, "ms")) * time.Millisecond)
			case 4:
				if len(late) > 0 {
					receive(late[0])
					late = late[1:]
				}
			default:
				if taken == len(b.sent) {
					continue
				}
				p := b.sent[taken]
				taken++
				switch rapid.IntRange(0, 5).Draw(rt, "fate") {
				case 0: // it is lost, or its answer, or it comes later
					if rapid.Bool().Draw(rt, "late") {
						late = append(late, copied(p))
					} else if rapid.Bool().Draw(rt, "there") {
						receive(p)
					}
					b.step(Produced{Request: p.Request, Err: kcode.NetworkException})
				case 1:
					code := rapid.SampledFrom([]kcode.Code{kcode.InvalidTimestamp, kcode.MessageTooLarge, kcode.NotLeaderOrFollower, kcode.RequestTimedOut, kcode.TopicAuthorizationFailed}).Draw(rt, "code")
					b.answer(p, code, -1)
				default:
					b.step(Produced{Request: p.Request, Parts: receive(p)})
				}
			}
			if b.s.askedPID {
				pid++
				b.step(ProducerIDGiven{ID: pid})
			}
			if b.s.asked {
				b.step(LeadersKnown{Leaders: leaders})
			}
			check()
			unfenced = unfenced || b.s.lanes[log0].tenure.forsaken // where nothing but luck keeps what is late from coming last
		}
		for i := 0; !b.s.Idle(); i++ { // the network is well again, and nobody hangs
			require.Less(rt, i, 100, "it never gets idle")
			for ; taken < len(b.sent); taken++ {
				b.step(Produced{Request: b.sent[taken].Request, Parts: receive(b.sent[taken])})
			}
			if b.s.askedPID {
				pid++
				b.step(ProducerIDGiven{ID: pid})
			}
			if b.s.asked {
				b.step(LeadersKnown{Leaders: leaders})
			}
			b.after(time.Second)
		}
		check()
		if failed := slices.ContainsFunc(b.bad, func(f ProduceFailed) bool { return f.Epoch == life }); !failed && seq > 0 {
			require.Equal(rt, []uint64{life, seq}, []uint64{b.acks[len(b.acks)-1].Epoch, b.acks[len(b.acks)-1].Seq})
		}
		// Within a grant nothing of an older life lies behind something of a newer one in the changelog: that would be what it has.
		for i, r := range logs[log0].records {
			for _, before := range logs[log0].records[:i] {
				require.False(rt, before.life > r.life && grants[before.life] == grants[r.life] && !unfenced, "life %d behind %d", r.life, before.life)
			}
		}
	})
}
