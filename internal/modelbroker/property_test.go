package modelbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// writer is an idempotent producer that keeps up to five batches in flight, loses answers, and sends again from the first that is not
// acknowledged, with the same bytes.
type writer struct {
	w      *world
	pid    int64
	next   int32
	queue  []ProduceBatch // not acknowledged
	acked  map[string]int64
	number int
}

func (p *writer) add(t *rapid.T) {
	if len(p.queue) == remembered {
		return
	}
	n := rapid.IntRange(1, 4).Draw(t, "records")
	var rs []task.OutRecord
	for range n {
		p.number++
		rs = append(rs, task.OutRecord{Value: fmt.Appendf(nil, "%d/%d", p.pid, p.number), Timestamp: epoch.UnixMilli()})
	}
	p.queue = append(p.queue, ProduceBatch{TopicPartition: tp("in", 0), ProducerID: p.pid, FirstSequence: p.next, Records: rs})
	p.next += int32(n)
}

// send sends the first n of the queue in order on one connection. The answers from the lost-th on never arrive.
func (p *writer) send(t *rapid.T) {
	node := rapid.Int32Range(0, 2).Draw(t, "node")
	c, err := p.w.b.Dial(node)
	if err != nil {
		return
	}
	n := rapid.IntRange(0, len(p.queue)).Draw(t, "sent")
	lost := rapid.IntRange(0, n).Draw(t, "answers")
	var ids []uint64
	for _, in := range p.queue[:n] {
		ids = append(ids, p.w.sendOn(c, ProduceRequest{Batches: []ProduceBatch{in}}))
	}
	done := 0
	for _, id := range ids[:lost] {
		out := got[ProduceResponse](p.w, id).Parts[0]
		if out.Code != kcode.None {
			require.Equal(t, kcode.NotLeaderOrFollower, out.Code)
			break
		}
		for i, r := range p.queue[done].Records {
			p.acked[string(r.Value)] = out.BaseOffset + int64(i)
		}
		done++
	}
	p.queue = p.queue[done:]
}

// TestLogKeepsAckedBatches: acknowledged records are in the log at the offset that the answer said, once; offsets are dense; what is not
// acknowledged is there once at most.
func TestLogKeepsAckedBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{Brokers: 3, LeaderSettle: 10 * time.Millisecond, Topics: map[string]TopicConfig{"in": {}}})
		in := tp("in", 0)
		var writers []*writer
		for range 2 {
			pid := do[InitProducerIDResponse](w, 0, InitProducerIDRequest{}).ProducerID
			writers = append(writers, &writer{w: w, pid: pid, acked: map[string]int64{}})
		}
		pick := func() *writer { return rapid.SampledFrom(writers).Draw(t, "writer") }
		node := func() int32 { return rapid.Int32Range(0, 2).Draw(t, "of node") }
		markers := 0
		t.Repeat(map[string]func(*rapid.T){
			"add":  func(t *rapid.T) { pick().add(t) },
			"send": func(t *rapid.T) { pick().send(t) },
			"move": func(*rapid.T) { w.b.MoveLeader(w.now, in, node()) },
			"kill": func(*rapid.T) {
				if n := node(); n > 0 { // one always lives, for the requests of the test
					w.b.Crash(w.now, n)
				}
			},
			"stop":    func(*rapid.T) { w.b.Shutdown(w.now, 1) },
			"restart": func(*rapid.T) { w.b.Restart(w.now, node()) },
			"marker":  func(*rapid.T) { w.b.EndTransaction(w.now, in); markers++ },
			"wait":    func(t *rapid.T) { w.wait(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "ms")) * time.Millisecond) },
			"": func(t *rapid.T) {
				log, end := w.b.Log(in)
				require.EqualValues(t, end, len(log)+markers, "dense")
				at := map[string]int64{}
				for _, r := range log {
					require.NotContains(t, at, string(r.Value), "appended twice")
					at[string(r.Value)] = r.Offset
				}
				for _, p := range writers {
					for v, offset := range p.acked {
						require.Equal(t, offset, at[v])
					}
				}
			},
		})
	})
}

// TestReadersSeeTheLog: a reader that goes by Next sees each record that a log keeps, in order, under any bounds of bytes, and never stops
// before the end.
func TestReadersSeeTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {Configs: map[string]string{"cleanup.policy": "compact,delete"}}}})
		in := tp("in", 0)
		read := func(t *rapid.T) []task.Record {
			_, end := w.b.Log(in)
			var seen []task.Record
			start := do[ListOffsetsResponse](w, 0, ListOffsetsRequest{Parts: []ListOffsetsPart{{TopicPartition: in, At: Earliest}}}).Parts[0].Offset
			for position := start; position < end; {
				p := w.fetch(0, FetchPart{TopicPartition: in, Offset: position, MaxBytes: rapid.Int32Range(1, 300).Draw(t, "bytes")})[0]
				require.Equal(t, kcode.None, p.Code)
				b := p.Batch(position)
				require.NotNil(t, b, "stuck at %d", position)
				seen = append(seen, b.Records...)
				position = b.Next
			}
			return seen
		}
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4).Draw(t, "keys")
				rs := outs(keys...)
				if rapid.Bool().Draw(t, "tombstone") {
					rs[0].Value = nil
				}
				pid := rapid.Int64Range(-1, 1).Draw(t, "pid")
				seq := int32(0)
				if p := w.b.topics["in"].parts[0].producers[pid]; p != nil {
					seq = p.last[len(p.last)-1].last + 1
				}
				require.Equal(t, kcode.None, w.produce(0, ProduceBatch{TopicPartition: in, ProducerID: pid, FirstSequence: seq, Records: rs})[0].Code)
			},
			"open":    func(*rapid.T) { w.b.OpenTransaction(w.now, in) },
			"marker":  func(*rapid.T) { w.b.EndTransaction(w.now, in) },
			"compact": func(t *rapid.T) { w.b.Compact(w.now, in, rapid.Bool().Draw(t, "tombstones")) },
			"trim": func(t *rapid.T) {
				_, end := w.b.Log(in)
				w.b.Trim(w.now, in, rapid.Int64Range(0, end).Draw(t, "start"))
			},
			"": func(t *rapid.T) {
				log, _ := w.b.Log(in)
				require.Equal(t, log, read(t))
			},
		})
	})
}

// TestGroupProgress: whatever members do, a group that has members has one of them as its leader, and a parked request on a living connection
// is answered within the rebalance timeout.
func TestGroupProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{Brokers: 1, MinSession: time.Millisecond, Seed: rapid.Uint64().Draw(t, "seed"), Topics: map[string]TopicConfig{"in": {}}})
		members := make([]*party, 3)
		type waiting struct {
			id    uint64
			since time.Time
			conn  Conn
		}
		parked, owes := map[*party]waiting{}, map[*party]bool{}
		const patience = 2 * time.Second // the rebalance timeout: it bounds a barrier, and the wait for a member's sync
		for i := range members {
			members[i] = w.party(fmt.Sprint(i))
			members[i].session, members[i].rebalance = 10*time.Second, patience
		}
		send := func(p *party, r Request) {
			if old, ok := parked[p]; ok {
				w.b.Hangup(old.conn)
			}
			c := w.dial(0)
			parked[p] = waiting{id: w.sendOn(c, r), since: w.now, conn: c}
		}
		learn := func(p *party) {
			q, ok := parked[p]
			if !ok || w.parked(q.id) {
				return
			}
			delete(parked, p)
			if r, ok := w.answered[q.id].(JoinGroupResponse); ok {
				switch r.Code {
				case kcode.None:
					p.gen, owes[p] = r.Generation, true
					require.Equal(t, r.Leader == p.id, len(r.Members) > 0)
				case kcode.UnknownMemberID:
					p.id = ""
				default:
					p.id = r.MemberID
				}
			}
		}
		pick := func(t *rapid.T) *party { return rapid.SampledFrom(members).Draw(t, "member") }
		sync := func(p *party) {
			delete(owes, p)
			send(p, p.syncRequest(Assignment{MemberID: p.id, Bytes: []byte(p.id)}))
		}
		step := func(t *rapid.T) { // what a member has to do next
			p := pick(t)
			switch {
			case owes[p]:
				sync(p)
			case parked[p].id == 0 && p.beat() != kcode.None:
				send(p, p.request())
			}
		}
		wait := func(t *rapid.T) {
			w.wait(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 1100 * time.Millisecond, 2100 * time.Millisecond}).Draw(t, "for"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"step": step, "another step": step, "a third step": step, "a fourth step": step, "a fifth step": step, "wait": wait, "wait more": wait,
			"join anew": func(t *rapid.T) {
				p := pick(t)
				p.bytes += "'"
				send(p, p.request())
			},
			"sync":  func(t *rapid.T) { sync(pick(t)) },
			"beat":  func(t *rapid.T) { pick(t).beat() },
			"leave": func(t *rapid.T) { p := pick(t); p.leave(); delete(parked, p) },
			"move":  func(*rapid.T) { w.b.MoveCoordinator(w.now, "g", 0); w.take() },
			"": func(t *rapid.T) {
				for _, p := range members {
					learn(p)
				}
				for p, q := range parked {
					require.LessOrEqual(t, w.now.Sub(q.since), patience, "%v is parked", p.bytes)
				}
				v := w.b.Group("g")
				require.Equal(t, len(v.Members) == 0, v.Leader == "")
				require.Equal(t, v.State == Empty, len(v.Members) == 0 && v.State != PreparingRebalance)
				leads := 0
				for _, m := range v.Members {
					if m.ID == v.Leader {
						leads++
					}
				}
				require.LessOrEqual(t, leads, 1)
				require.True(t, v.Leader == "" || leads == 1)
			},
		})
	})
}

// TestReplays: the same seed and calls give the same answers.
func TestReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		script := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 30).Draw(t, "script")
		play := func() []Answer {
			b := New(Config{Brokers: 2, Seed: seed, Topics: map[string]TopicConfig{"in": {Partitions: 4}, "out": {Partitions: 2}}})
			now, all := epoch, []Answer{}
			for i, s := range script {
				now = now.Add(time.Duration(s) * 700 * time.Millisecond)
				node := int32(i % 2)
				c, err := b.Dial(node)
				switch {
				case s == 4:
					b.Crash(now, node)
				case s == 5:
					b.Restart(now, node)
				case err != nil:
				case s == 3:
					b.Receive(now, c, uint64(i), JoinGroupRequest{
						Group: "g", Session: 6 * time.Second, Rebalance: time.Second, ProtocolType: "consumer", Protocols: []Protocol{{Name: "p", Metadata: []byte{}}},
					})
				default:
					b.Receive(now, c, uint64(i), MetadataRequest{})
					b.Receive(now, c, uint64(i)+1000, FetchRequest{MaxWait: time.Second, MinBytes: 1, Parts: []FetchPart{{TopicPartition: tp("in", node), LeaderEpoch: -1}}})
				}
				all = append(all, b.Answers()...)
			}
			b.Advance(now.Add(time.Hour))
			return append(all, b.Answers()...)
		}
		require.Equal(t, play(), play())
	})
}
