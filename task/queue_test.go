package task

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func stamps(offset int64, ts ...int64) *Batch {
	var rs []Record
	for i, t := range ts {
		rs = append(rs, rec(offset+int64(i), "k", "v", t))
	}
	return batch(offset+int64(len(ts)), rs...)
}

// drain takes n records and returns their timestamps.
func drain(q *queues, n int) (ts []int64) {
	for range n {
		i := q.next()
		if i < 0 {
			break
		}
		ts = append(ts, q.all[i].peek().Timestamp)
		q.advance()
	}
	return ts
}

func TestLowestHeadFirst(t *testing.T) {
	q := newQueues([]int64{0, 0})
	q.add(0, stamps(0, 1, 3, 5))
	q.add(1, stamps(0, 2, 4, 6))
	require.Equal(t, []int64{1, 2, 3, 4}, drain(&q, 4))
	q.add(0, stamps(3, 2, 4))
	require.Equal(t, []int64{5, 2, 4, 6}, drain(&q, 9))
	require.Equal(t, -1, q.next())

	q = newQueues([]int64{0, 0})
	q.add(0, stamps(0, 10, 20, 30))
	q.add(1, stamps(0, 25, 35, 45))
	require.Equal(t, []int64{10, 20, 25, 30, 35, 45}, drain(&q, 9))
}

func TestTiesGoByInput(t *testing.T) {
	q := newQueues([]int64{0, 0, 0})
	for i := 2; i >= 0; i-- {
		q.add(i, stamps(0, 7, 7))
	}
	var order []int
	for i := q.next(); i >= 0; i = q.next() {
		order = append(order, i)
		q.advance()
	}
	require.Equal(t, []int{0, 0, 1, 1, 2, 2}, order)
}

func TestQueueAccounts(t *testing.T) {
	q := newQueues([]int64{10})
	in := &q.all[0]
	q.add(0, &Batch{Next: 12, Bytes: 3}) // a gap alone moves the position
	require.EqualValues(t, 12, in.position)
	require.Equal(t, 3, in.consumed)

	b := batch(20, rec(11, "old", "", 1), rec(12, "a", "", 1), rec(15, "b", "", 1))
	q.add(0, b)
	q.add(0, &Batch{Next: 25, Bytes: 5})
	require.Equal(t, b.Bytes+5, in.bytes)
	require.Equal(t, "a", string(in.peek().Key), "what was taken before is skipped")
	q.advance()
	require.EqualValues(t, 13, in.position)
	require.Equal(t, 3, in.consumed)
	q.advance()
	require.EqualValues(t, 25, in.position, "the gap behind it is done with it")
	require.Equal(t, 0, in.bytes)
	require.Equal(t, 3+b.Bytes+5, in.consumed)
	require.EqualValues(t, 25, in.end)
}

func TestQueueOrderAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "inputs")
		q := newQueues(make([]int64, n))
		model := make([][]Record, n)
		next := make([]int64, n)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := rapid.IntRange(0, n-1).Draw(t, "input")
				var rs []Record
				for _, ts := range rapid.SliceOfN(rapid.Int64Range(-1, 9), 0, 5).Draw(t, "stamps") {
					next[i] += rapid.Int64Range(0, 2).Draw(t, "gap")
					rs = append(rs, rec(next[i], "k", "v", ts))
					next[i]++
				}
				next[i] += rapid.Int64Range(0, 2).Draw(t, "gap at the end")
				model[i] = append(model[i], rs...)
				q.add(i, batch(next[i], rs...))
			},
			"take": func(t *rapid.T) {
				want := -1
				for i := range model {
					if len(model[i]) > 0 && (want < 0 || model[i][0].Timestamp < model[want][0].Timestamp) {
						want = i
					}
				}
				require.Equal(t, want, q.next())
				if want < 0 {
					return
				}
				require.Equal(t, model[want][0].Offset, q.all[want].peek().Offset)
				q.advance()
				done := model[want][0].Offset + 1
				model[want] = model[want][1:]
				require.GreaterOrEqual(t, q.all[want].position, done)
			},
			"": func(t *rapid.T) {
				for i := range model {
					require.Equal(t, len(model[i]) == 0, q.all[i].empty())
					if len(model[i]) == 0 {
						require.Equal(t, next[i], q.all[i].position)
						require.Zero(t, q.all[i].bytes)
					} else {
						require.LessOrEqual(t, q.all[i].position, model[i][0].Offset)
					}
				}
			},
		})
	})
}
