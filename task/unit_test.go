package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/statestore"
)

func TestOutputsGoWhereJavaPutsThem(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.feed(0, batch(5, rec(0, "21", "a", 1), rec(1, "-", "b", 2), rec(2, "abc", "-", 3), rec(3, "abc", "", 4), rec(4, "", "c", 5)))
	at := func(key string) string { return fmt.Sprintf("out-%d", PartitionFor([]byte(key), 2)) }
	want := map[string][]string{}
	want[at("21")] = append(want[at("21")], "21:a@1")
	want["out-1"] = append(want["out-1"], "-:b@2") // the task's own partition
	want[at("abc")] = append(want[at("abc")], "abc:-@3", "abc:@4")
	want[at("")] = append(want[at("")], ":c@5")
	require.Equal(t, want, w.out, "null and empty are told apart")
}

func TestHeadersAreCopied(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.holdAcks = true
	key, value := []byte("name"), []byte("value")
	w.step(Fetched{0, batch(1, rec(0, "21", "a", 1, Header{string(key), value}, Header{"null", nil}, Header{"empty", []byte{}}))})
	w.work()
	copy(value, "XXXXX")
	require.Equal(t, []OutRecord{{Key: []byte("21"), Value: []byte("a"), Timestamp: 1,
		Headers: []Header{{"name", []byte("value")}, {"null", nil}, {"empty", []byte{}}}}}, w.sent[0].Groups[0].Records())
}

func TestAFailedUnitLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		value string
		kind  Kind
		node  string
	}{{"bad", KindProcess, "count"}, {"panic", KindPanic, ""}} {
		t.Run(c.value, func(t *testing.T) {
			w := newWorld(t, Config{Spec: countSpec(false)})
			w.feed(0, batch(5, rec(0, "a", "1", 10), rec(1, "b", "2", 11), rec(2, "a", "3", 12), rec(3, "a", c.value, 99), rec(4, "a", "5", 100)))
			require.Equal(t, []string{"a:1@10", "b:1@11", "a:2@12"}, w.out["out-0"])
			require.Equal(t, []string{"a:\x00\x00\x00\x00\x00\x00\x00\x02@12", "b:\x00\x00\x00\x00\x00\x00\x00\x01@11"}, w.out["counts-changelog-1"])
			require.Equal(t, []string{"in@3 st=12 n=3"}, w.commits, "what precedes it is committed, its time is not")
			require.Equal(t, map[string]string{"a": "2@12", "b": "1@11"}, w.rows(0))
			require.Equal(t, StateFailed, w.owner.State())
			var e *Error
			require.ErrorAs(t, w.failed, &e)
			require.Equal(t, c.kind, e.Kind)
			require.Equal(t, c.node, e.Node)
			require.Equal(t, "in", e.Topic)
			require.EqualValues(t, 1, e.Partition)
			require.EqualValues(t, 3, e.Offset)
			require.ErrorIs(t, e, errBad)
			require.ErrorIs(t, w.owner.Err(), errBad)
			require.EqualValues(t, 1, w.owner.Stats().Failed)
			require.EqualValues(t, 3, w.owner.Stats().Processed)
		})
	}
}

func TestTheFirstFailureWins(t *testing.T) {
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			require.False(t, e.Failed())
			e.Fail("one", KindDecode, nil)
			e.Fail("two", KindProcess, errBad)
			require.True(t, e.Failed())
			e.Send(0, 0, append(e.Tail(), 'x'), 1, -1, 1, nil)
			panic("three")
		}}}, nil
	}
	w := newWorld(t, Config{Spec: s})
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	require.EqualError(t, w.failed, `task 0_1, in-1 at offset 0, node "one": decode: failed without an error`)
	require.Empty(t, w.out)
}

func TestWhatTheBrokerWouldRefuseFailsTheUnit(t *testing.T) {
	big := strings.Repeat("x", 100)
	for _, c := range []struct {
		name string
		send func(e *Env)
		want string // empty: it is taken
	}{
		{"fits", func(e *Env) { e.Send(0, 0, []byte("kv"), 1, 1, 0, nil) }, ""},
		{"value too large", func(e *Env) { e.Send(0, 0, []byte(big), 1, 99, 0, nil) }, "100 bytes"},
		{"headers too large", func(e *Env) { e.Send(0, 0, []byte("kv"), 1, 1, 0, []Header{{big, nil}}) }, "102 bytes"},
		{"too large for the topic", func(e *Env) { e.Send(1, 0, []byte("kkkkkkkkkk"), 10, -1, 0, nil) }, "which takes 8"},
		{"null key, compacted", func(e *Env) { e.Send(1, 0, []byte("v"), -1, 1, 0, nil) }, "compacted"},
		{"empty key, compacted", func(e *Env) { e.Send(1, 0, []byte("v"), 0, 1, 1_000_000, nil) }, ""},
		{"timestamp below 0", func(e *Env) { e.Send(0, 0, []byte("kv"), 1, 1, -1, nil) }, "timestamp -1"},
		{"too new", func(e *Env) { e.Send(1, 0, []byte("kv"), 1, 1, 1_000_000+60_001, nil) }, "ahead"},
		{"too old", func(e *Env) { e.Send(1, 0, []byte("kv"), 1, 1, 1_000_000-60_001, nil) }, "behind"},
		{"no such partition", func(e *Env) { e.Send(0, 2, []byte("kv"), 1, 1, 0, nil) }, "partition 2"},
		{"no such topic", func(e *Env) { e.Send(2, -1, []byte("kv"), 1, 1, 0, nil) }, "not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mapSpec()
			s.Dests = []Dest{{Topic: "out"}, {Topic: "table", Compacted: true}, {Topic: "nowhere"}}
			s.Build = func(e *Env) (*Graph, error) {
				return &Graph{Inputs: []func(*Record){func(r *Record) { c.send(e) }}}, nil
			}
			w := newWorld(t, Config{Spec: s, MaxRecordBytes: 99, Limits: func(topic string) Limits {
				if topic == "table" {
					return Limits{RecordBytes: 8, Before: time.Minute, After: time.Minute}
				}
				return Limits{}
			}})
			w.feed(0, batch(1, rec(0, "a", "1", 10)))
			if c.want == "" {
				require.NoError(t, w.failed)
				require.Len(t, w.out, 1)
				return
			}
			require.ErrorContains(t, w.failed, c.want)
			var e *Error
			require.ErrorAs(t, w.failed, &e)
			require.Equal(t, KindProduce, e.Kind)
			require.Empty(t, w.out)
		})
	}
}

func TestDynamicDestinations(t *testing.T) {
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			d, err := e.Dest(string(r.Key))
			if err != nil {
				e.Fail("to", KindProduce, err)
				return
			}
			e.Send(d, 0, append(e.Tail(), r.Value...), -1, len(r.Value), r.Timestamp, nil)
		}}}, nil
	}
	w := newWorld(t, Config{Spec: s})
	w.feed(0, batch(4, rec(0, "x", "1", 1), rec(1, "out", "2", 2), rec(2, "x", "3", 3), rec(3, "nowhere", "4", 4)))
	require.Equal(t, map[string][]string{"x-0": {"-:1@1", "-:3@3"}, "out-0": {"-:2@2"}}, w.out)
	require.ErrorContains(t, w.failed, `topic "nowhere" is not known`)
}

func TestNegativeTimestamps(t *testing.T) {
	in := func() *Batch { return batch(3, rec(0, "a", "1", 10), rec(1, "a", "2", -5), rec(2, "a", "3", 11)) }
	for _, c := range []struct {
		name   string
		policy NegativeTimestamp
		want   []string
		commit string
		fails  bool
	}{
		{"fail", Fail, []string{"a:1@10"}, "in@1 st=10 n=1", true},
		{"drop", Drop, []string{"a:1@10", "a:3@11"}, "in@3 st=11 n=3", false},
		{"stream time", UseStreamTime, []string{"a:1@10", "a:2@10", "a:3@11"}, "in@3 st=11 n=3", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mapSpec()
			s.Inputs[0].NegativeTimestamp = c.policy
			w := newWorld(t, Config{Spec: s})
			w.feed(0, in())
			w.advance(time.Second)
			require.Equal(t, c.want, w.out["out-"+fmt.Sprint(PartitionFor([]byte("a"), 2))])
			require.Equal(t, []string{c.commit}, w.commits)
			var e *Error
			require.Equal(t, c.fails, errors.As(w.failed, &e) && e.Kind == KindTimestamp)
			if c.policy == Drop {
				require.Equal(t, []Dropped{{DroppedNegativeTimestamp, 1}}, w.owner.Stats().Dropped)
			}
		})
	}
	t.Run("before there is a stream time", func(t *testing.T) {
		s := mapSpec()
		s.Inputs[0].NegativeTimestamp = UseStreamTime
		w := newWorld(t, Config{Spec: s})
		w.feed(0, batch(1, rec(0, "a", "1", -5)))
		require.ErrorContains(t, w.failed, "timestamp -5")
	})
}

func TestBeatsBeforeEachUnit(t *testing.T) {
	var beats []int64
	w := newWorld(t, Config{Spec: countSpec(true), Beat: func(input int, offset int64) { beats = append(beats, int64(input), offset) }})
	w.feed(0, batch(3, rec(0, "a", "1", 10), rec(1, "b", "1", 11), rec(2, "b", "panic", 12)))
	require.Equal(t, []int64{0, 0, 0, 1, 0, 2, -1, -1, -1, -1}, beats, "three records, two emissions")
}

// skipping drives a task by hand and goes on after a failed record, as a policy that skips would.
func skipping(t *Task, limit int) {
	for t.in.next() >= 0 && limit > 0 {
		t.Process(epoch0, limit)
		if t.err == nil {
			return
		}
		t.err = nil
		t.in.advance()
		limit--
	}
}

// trace takes what a task made: its outputs and, at a seal, its changelog.
func trace(t *Task) (lines []string) {
	t.Flush()
	for e := t.TakeEffects(); e != nil; e = t.TakeEffects() {
		for _, g := range e.Groups {
			for _, r := range g.Records() {
				lines = append(lines, g.To.String()+" "+show(r))
			}
		}
		t.Acked(e.Seq)
	}
	return lines
}

// TestFailedUnitsMightNeverHaveCome compares a run in which some records fail with a run of the others alone.
func TestFailedUnitsMightNeverHaveCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atCommit := rapid.Bool().Draw(t, "at commit")
		open := func() *Task {
			task, err := NewTask(Config{
				ID: testID, Spec: countSpec(atCommit), Stores: []statestore.Reader{nil}, Positions: []int64{0}, StreamTime: -1,
				Partitions: func(string) int32 { return 3 }, Seed: rapid.Uint64().Draw(t, "seed"),
			})
			require.NoError(t, err)
			return task
		}
		both, good := open(), open()
		offset := int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "commits") {
			n := rapid.IntRange(0, 12).Draw(t, "records")
			for range n {
				key := rapid.SampledFrom([]string{"a", "b", "c", "", "-"}).Draw(t, "key")
				value := rapid.SampledFrom([]string{"v", "v", "bad", "panic"}).Draw(t, "value")
				ts := rapid.Int64Range(0, 50).Draw(t, "ts")
				h := Header{"h", []byte(key)}
				both.Add(0, batch(offset+1, rec(offset, key, value, ts, h)))
				if value == "v" || key == "-" {
					good.Add(0, batch(offset+1, rec(offset, key, value, ts, h)))
				}
				offset++
			}
			skipping(both, 100)
			good.Process(epoch0, 100)
			require.NoError(t, good.err)
			a, b := both.Seal(epoch0), good.Seal(epoch0)
			require.Equal(t, b.Stores, a.Stores)
			require.Equal(t, b.StreamTime, a.StreamTime)
			require.Equal(t, trace(good), trace(both))
			require.Equal(t, good.Stats().Dropped, both.Stats().Dropped)
			both.Committed(nil)
			good.Committed(nil)
		}
	})
}

// TestAFailedUnitAskedForNothing undoes what a unit did beside its stores and outputs.
func TestAFailedUnitAskedForNothing(t *testing.T) {
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			e.Schedule("t", time.Millisecond, StreamTime, func(int64) {})
			e.Dropped("reason", 3)
			if string(r.Value) == "bad" {
				e.RequestCommit()
			}
			misbehave(e, "n", r.Value)
		}}}, nil
	}
	task, err := NewTask(Config{ID: testID, Spec: s, Positions: []int64{0}, StreamTime: -1})
	require.NoError(t, err)
	task.Add(0, batch(2, rec(0, "a", "bad", 10), rec(1, "a", "good", 7)))
	task.Process(epoch0, 1)
	require.ErrorIs(t, task.Err(), errBad)
	require.Empty(t, task.timers.all)
	require.Equal(t, never, task.timers.due[StreamTime])
	require.Empty(t, task.Stats().Dropped)
	require.False(t, task.Dirty())
	require.Equal(t, InputStats{Position: 0, Queued: 49, Time: -1}, task.Stats().Inputs[0])

	task.err = nil
	task.in.advance()
	task.Process(epoch0, 1)
	require.Len(t, task.timers.all, 1)
	require.Equal(t, []Dropped{{"reason", 3}}, task.Stats().Dropped)
	require.False(t, task.commit.blocked)
	require.Equal(t, InputStats{Position: 2, Queued: 0, Time: 7}, task.Stats().Inputs[0])
}

// TestTablesEmitInOrder has a table whose emissions change another one.
func TestTablesEmitInOrder(t *testing.T) {
	s := countSpec(true)
	s.Stores = append(s.Stores, Store{Spec: statestore.Spec{Name: "last"}, KeepBefore: true})
	s.Build = func(e *Env) (*Graph, error) {
		first := &counter{e: e, store: e.Store(0), atCommit: true}
		send := func(s string) { e.Send(0, 0, append(e.Tail(), s...), -1, len(s), 1, nil) }
		return &Graph{
			Inputs: []func(*Record){first.process},
			Tables: []Table{
				{Store: 0, Node: "one", Emit: func(key []byte, now statestore.Row, _ bool, before statestore.Row, hadBefore bool) {
					send(fmt.Sprintf("one %s %x %v %x", key, now.Value, hadBefore, before.Value))
					if err := e.Store(1).Put(key[:1], key, now.Timestamp); err != nil {
						e.Fail("one", KindStore, err)
					}
					e.RequestCommit() // is covered by the commit that emits
				}},
				{Store: 1, Node: "two", Emit: func(key []byte, now statestore.Row, present bool, _ statestore.Row, hadBefore bool) {
					send(fmt.Sprintf("two %s %s %v", key, now.Value, hadBefore))
				}},
			},
		}, nil
	}
	w := newWorld(t, Config{Spec: s})
	w.feed(0, batch(4, rec(0, "b2", "", 1), rec(1, "a1", "", 2), rec(2, "b1", "", 3), rec(3, "b2", "", 4)))
	w.step(Commit{})
	require.True(t, w.owner.t.commit.outstanding == nil && !w.owner.t.commit.blocked)
	w.feed(0, batch(5, rec(4, "b2", "", 5)))
	w.step(Commit{})
	require.Equal(t, []string{
		"-:one b2 0000000000000002 false @1", "-:one a1 0000000000000001 false @1", "-:one b1 0000000000000001 false @1",
		"-:two b b1 false@1", "-:two a a1 false@1",
		"-:one b2 0000000000000003 true 0000000000000002@1", "-:two b b2 true@1",
	}, w.out["out-0"])
	require.Equal(t, map[string]string{"a": "a1@2", "b": "b2@5"}, w.rows(1))
	require.NotContains(t, w.out, "-1", "a store without a changelog writes none")
	require.Len(t, w.out["counts-changelog-1"], 4)
	require.Len(t, w.commits, 2)
}

func TestErrorsNameTheNodeThatRan(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(e *Env)
		kind Kind
	}{
		{"panic", func(*Env) { panic("!") }, KindPanic},
		{"send", func(e *Env) { e.Send(0, -1, nil, -1, -1, -1, nil) }, KindProduce},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mapSpec()
			s.Nodes = []string{"first", "second"}
			s.Build = func(e *Env) (*Graph, error) {
				return &Graph{Inputs: []func(*Record){func(r *Record) {
					if string(r.Key) == "named" {
						e.Enter(0)
						e.Enter(1)
					}
					if string(r.Value) == "fail" {
						c.then(e)
					}
				}}}, nil
			}
			for key, want := range map[string]string{"named": "second", "": ""} {
				w := newWorld(t, Config{Spec: s})
				w.feed(0, batch(2, rec(0, "named", "", 1), rec(1, key, "fail", 2)))
				var e *Error
				require.ErrorAs(t, w.failed, &e)
				require.Equal(t, c.kind, e.Kind)
				require.Equal(t, want, e.Node)
			}
		})
	}
}
