package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// tally is the topology of the rebalance scenarios: the number of records of each key, kept beside the last of them so that the state is of a
// realistic size. An update is put out as the count and the name of the instance that counted.
func tally(in, out, instance string) *streams.Builder {
	b := streams.NewBuilder(streams.EmitPerUpdate)
	b.Stream(in, serde.String, serde.Bytes).
		GroupByKey().
		Aggregate("c", func() []byte { return make([]byte, countBytes) }, counted, streams.WithValueSerde(serde.Bytes)).
		ToStream().
		MapValues(func(row []byte) []byte {
			return append(append(make([]byte, 0, countBytes+len(instance)), row[:countBytes]...), instance...)
		}).
		To(out)
	return b
}

const countBytes = 8

// counted is the row after one more record: the count, and the record.
func counted(_ string, value, row []byte) []byte {
	n := binary.BigEndian.Uint64(row) + 1
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, countBytes+len(value)), n), value...)
}

// say prints a line that the harness reads: what happened, when, and details as name=value.
func say(what, details string, args ...any) {
	fmt.Printf("%s at=%d %s\n", what, time.Now().UnixMilli(), fmt.Sprintf(details, args...))
}

// sayAll adds to the listener lines for what happens to tasks.
func sayAll(l streams.Listener) streams.Listener {
	restore := l.Restore
	l.Restore = func(p streams.RestoreProgress) {
		restore(p)
		if p.Done {
			say("RESTORED", "task=%s role=%s start=%d records=%d took_ms=%d", p.Task, p.Role, p.Start, p.Records, p.Took.Milliseconds())
		}
	}
	l.Task = func(id streams.TaskID, state string) { say("TASK", "task=%s state=%s", id, state) }
	l.Assigned = func(tasks []streams.TaskID) {
		names := make([]string, len(tasks))
		for i, id := range tasks {
			names[i] = id.String()
		}
		say("ASSIGNED", "tasks=%s", strings.Join(names, ","))
	}
	l.Learned = func(id streams.TaskID, lag int64, took time.Duration) {
		say("LEARNED", "task=%s lag=%d took_ms=%d", id, lag, took.Milliseconds())
	}
	l.Promoted = func(id streams.TaskID, lacked int64, took time.Duration) {
		say("PROMOTED", "task=%s lacked=%d took_ms=%d", id, lacked, took.Milliseconds())
	}
	l.Lost = func(reason string) { say("LOST", "reason=%q", reason) }
	return l
}

// onSignal calls f when the harness asks for it.
func onSignal(f func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		<-asked
		f()
	}()
}
